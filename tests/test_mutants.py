"""The lists that mutants are made from follow the code. Whether tests kill them, ``python -m tests.mutants`` says."""

from __future__ import annotations

from pathlib import Path

from tests.equivalent_mutants import EQUIVALENT
from tests.mutants import AUDIT, JUDGING, NOT_JUDGING, RELEASING, ROOT, chosen_mutants, mutants_of


def test_every_listed_module_and_test_is_there() -> None:
    """A module that has moved takes its line with it; each has tests of its own."""
    for module, tests in {**RELEASING, **JUDGING}.items():
        assert (ROOT / module).exists(), module
        assert tests, module
        assert all((ROOT / test).exists() for test in tests), module


def test_every_module_of_the_audit_judges_or_is_named() -> None:
    """With the reason why it decides nothing."""
    modules = {
        str(path.relative_to(ROOT)) for path in (ROOT / AUDIT).rglob("*.py") if path.stem != "__init__"
    }
    named = {f"{AUDIT}/{name}.py" for name in NOT_JUDGING}
    assert named <= modules
    assert modules - named == JUDGING.keys()
    assert all(NOT_JUDGING.values())


def test_every_equivalent_mutant_is_one_that_is_made() -> None:
    """A line about code that has changed explains nothing; and no more than one in twenty is explained away."""
    made = chosen_mutants()
    assert {mutant.name for mutant in made} >= EQUIVALENT.keys()
    assert len(EQUIVALENT) <= len(made) / 20
    assert all(len(reason) > 20 for reason in EQUIVALENT.values())


def test_a_mutant_differs_from_the_module_in_the_place_that_it_names() -> None:
    """Its tree is the module's but for that; and each is another."""
    module = next(iter(RELEASING))
    source = Path(ROOT / module).read_text()
    import ast

    plain = ast.unparse(ast.parse(source))
    trees = [ast.unparse(mutant.tree()) for mutant in mutants_of(module)]
    assert len(set(trees)) == len(trees)
    assert plain not in trees
