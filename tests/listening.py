"""What processes listen on, as the kernel tells it."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

_LISTENS, _CONNECTED = "0A", "01"


class Listener(NamedTuple):
    """A socket that takes connections. program: what the process was started as, shortened."""

    pid: int
    address: str
    port: int
    program: str

    @property
    def beyond_loopback(self) -> bool:
        """Whether others than this machine reach it."""
        address = ipaddress.ip_address(self.address)
        mapped = getattr(address, "ipv4_mapped", None)
        return not (mapped or address).is_loopback


def listeners(pids: Iterable[int]) -> list[Listener]:
    """The listening TCP sockets of processes, IPv4 and IPv6; of one that has ended, none."""
    found = []
    for pid in pids:
        folder = Path(f"/proc/{pid}")
        try:
            inodes = set(_inodes(folder / "fd"))
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            tables = [(folder / "net" / name).read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
        except OSError:
            continue
        for line in (line for table in tables for line in table):
            fields = line.split()
            if fields[3] == _LISTENS and f"[{fields[9]}]" in inodes:
                address, _, port = fields[1].partition(":")
                found.append(Listener(pid, _address(address), int(port, 16), command[-120:]))
    return found


def talks_to(pid: int, ports: Collection[int]) -> bool:
    """Whether a process has an open connection to one of these ports of this machine."""
    folder = Path(f"/proc/{pid}")
    try:
        inodes = set(_inodes(folder / "fd"))
        tables = [(folder / "net" / name).read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    except OSError:
        return False
    lines = [line.split() for table in tables for line in table]
    remote = {
        int(each[2].partition(":")[2], 16) for each in lines if _open(each) and f"[{each[9]}]" in inodes
    }
    return bool(remote & set(ports))


def _open(fields: list[str]) -> bool:
    return fields[3] == _CONNECTED


def _inodes(descriptors: Path) -> Iterator[str]:
    for link in descriptors.iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile, as that of the folder itself
            yield link.readlink().name.removeprefix("socket:")


def _address(told: str) -> str:
    """The kernel writes 32-bit words in the machine's order (little-endian here)."""
    words = [bytes.fromhex(told[at : at + 8])[::-1] for at in range(0, len(told), 8)]
    return str(ipaddress.ip_address(b"".join(words)))


def family(pids: Iterable[int]) -> set[int]:
    """The processes with all that descend from them."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = set(pids)
    while new := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= new
    return found
