"""Ports that are chosen for servers before these start."""

import socket
from pathlib import Path

import pytest

from deploy import free_ports as module
from deploy.free_ports import LOOPBACK, free_ports


def test_no_outgoing_connection_is_given_one() -> None:
    """They are different, nobody listens there, and they lie below those that the system gives away."""
    ports = free_ports(40)
    assert len(set(ports)) == 40
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")
    least = int(given.read_text().split()[0]) if given.exists() else 32_768
    assert least <= 20_040 or max(ports) < least
    for port in ports:
        with socket.socket() as one:
            one.bind((LOOPBACK, port))


def test_a_port_that_is_taken_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One of four candidates is taken, and is not among those that are found."""
    monkeypatch.setattr(module, "_RANGE", tmp_path / "there is none")
    (first,) = free_ports(1)
    monkeypatch.setattr(module, "_LEAST", first)
    monkeypatch.setattr(module, "_MOST", first + 4)
    with socket.socket() as taken:
        taken.bind((LOOPBACK, first + 1))
        assert first + 1 not in free_ports(2)
