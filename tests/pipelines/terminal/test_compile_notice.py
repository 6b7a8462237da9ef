"""Whoever waits for a compiler is told, once, and before."""

from __future__ import annotations

import io

import numba

from kanonflow.pipelines.terminal.compile_notice import COMPILES, told_compiling


def test_the_first_kernel_is_announced_before_it_is_compiled() -> None:
    """Once, however many there are; what is there already says nothing, nor does anything afterwards."""
    terminal = io.StringIO()
    heard: list[str] = []

    @numba.njit
    def one(number: int) -> int:
        with numba.objmode():
            heard.append(terminal.getvalue())
        return number + 1

    @numba.njit
    def two(number: int) -> int:
        return number + 2

    with told_compiling(terminal):
        assert one(1) + two(1) == 5
    assert heard == [f"{COMPILES}\n"]
    assert terminal.getvalue() == f"{COMPILES}\n"
    with told_compiling(terminal):
        one(2)
    two(2.0)
    assert terminal.getvalue() == f"{COMPILES}\n"
