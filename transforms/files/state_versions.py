"""State that outlives the code that wrote it: what is said when it cannot be read."""

from __future__ import annotations


class StateError(Exception):
    """A partition's state was written by a version that this one cannot read, or is damaged."""

    exit_code = 3


def other_layout(what: str, found: object, newest: int) -> StateError:
    """The error for state of a layout that this version, which reads 1 to ``newest``, does not. what: its part."""
    reads = "1" if newest == 1 else f"1 to {newest}"
    return StateError(
        f"the {what} has layout {found}, this version reads {reads}; go on with the version that wrote it, or end the"
        " feed with that and begin a new one behind the last row it read: never with empty state over released rows"
    )


def damaged(what: str, how: str) -> StateError:
    """The error for state that is not what any version wrote. how: what is wrong with it, without any of it."""
    return StateError(f"the {what} is damaged: {how}")
