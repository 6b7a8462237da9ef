"""What a policy or an input is refused for."""

from __future__ import annotations

from collections.abc import Sequence

from kanonflow.schemas.printable import printable


class SchemaError(Exception):
    """Base of the errors about policies and inputs; ``exit_code`` is what a command ends with."""

    exit_code = 2


class _MistakesError(SchemaError):
    """Every mistake of a thing at once, one a line. source: the file it came from; empty when it was built in code."""

    thing = ""

    def __init__(self, mistakes: Sequence[str], source: str = "") -> None:
        self.mistakes = tuple(mistakes)
        self.source = source
        super().__init__(self.mistakes, source)

    def __str__(self) -> str:
        count = len(self.mistakes)
        head = f"{self.source or self.thing}: {count} mistake{'' if count == 1 else 's'} in the {self.thing}"
        return "\n".join([printable(head), *(f"  - {printable(mistake)}" for mistake in self.mistakes)])


class PolicyError(_MistakesError):
    """A policy that cannot be used. mistakes: what is wrong, each naming the field or key and what to do about it."""

    thing = "policy"


class HierarchyError(_MistakesError):
    """A hierarchy that cannot be used. mistakes: with line numbers and its own labels, never a record's value."""

    thing = "hierarchy"


class InputError(SchemaError):
    """An input that cannot be read as what it claims to be. The message never holds a record's value."""

    def __str__(self) -> str:
        """One line, whatever the names in it hold."""
        return printable(super().__str__())
