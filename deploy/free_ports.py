"""Ports for servers that are started after they were chosen.

They lie below those that the system gives to outgoing connections and to servers that name none: one of these could be
taken by somebody else before the server that it was meant for begins.
"""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"
_LEAST, _MOST = 20_000, 32_768
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on, all different. Raises OSError: there are too few."""
    ends = _MOST
    with contextlib.suppress(OSError, ValueError, IndexError):
        ends = min(_MOST, int(_RANGE.read_text().split()[0]))
    candidates = list(range(_LEAST, ends)) if ends > _LEAST + count else list(range(1_024, 65_536))
    random.SystemRandom().shuffle(candidates)
    ports: list[int] = []
    with contextlib.ExitStack() as stack:
        for port in candidates:
            if len(ports) == count:
                break
            one = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                one.bind((LOOPBACK, port))
                ports.append(port)
    if len(ports) < count:
        raise OSError(f"this machine has no {count} free ports")
    return ports
