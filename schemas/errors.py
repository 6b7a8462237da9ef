"""What a policy or an input is refused for."""

from __future__ import annotations

from collections.abc import Sequence


class SchemaError(Exception):
    """Base of the errors about policies and inputs; ``exit_code`` is what a command ends with."""

    exit_code = 2


class PolicyError(SchemaError):
    """A policy that cannot be used: every mistake of it at once, one a line.

    mistakes: what is wrong, each naming the field or key and what to do about it.
    source: the file (or schema) the policy came from; empty when it was built in code.
    """

    def __init__(self, mistakes: Sequence[str], source: str = "") -> None:
        self.mistakes = tuple(mistakes)
        self.source = source
        super().__init__(self.mistakes, source)

    def __str__(self) -> str:
        count = len(self.mistakes)
        head = f"{self.source or 'policy'}: {count} mistake{'' if count == 1 else 's'} in the policy"
        return "\n".join([head, *(f"  - {mistake}" for mistake in self.mistakes)])


class InputError(SchemaError):
    """An input that cannot be read as what it claims to be. The message never holds a record's value."""


class HierarchyError(SchemaError):
    """A hierarchy that cannot be used: every mistake of it at once, one a line.

    mistakes: what is wrong, with line numbers and the hierarchy's own labels, never a record's value.
    source: the file it came from; empty when it was built in code.
    """

    def __init__(self, mistakes: Sequence[str], source: str = "") -> None:
        self.mistakes = tuple(mistakes)
        self.source = source
        super().__init__(self.mistakes, source)

    def __str__(self) -> str:
        count = len(self.mistakes)
        head = f"{self.source or 'hierarchy'}: {count} mistake{'' if count == 1 else 's'} in the hierarchy"
        return "\n".join([head, *(f"  - {mistake}" for mistake in self.mistakes)])
