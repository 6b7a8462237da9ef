"""Mutants that no test can kill, each with the reason why it changes nothing that could be seen.

(module, function, expression, what it becomes, number of the equal one within the function): the reason
"""

_KINDS = "transforms/publishing/gate_kinds.py"
_POOL = "transforms/roster/pool.py"
_FOUNDING = "transforms/roster/founding.py"
_JOINED = (
    "MergeTask(Table(table.numeric, table.categorical, table.cardinality, table.weights, individuals=units,"
    " heights=table.heights), rows=members, active=members, k=size, seed={seed}, evaluations=0)"
)
_PUBLISH, _LINEAGE = "transforms/publishing/publish.py", "transforms/lineage/release_lineage.py"
_WAYS = "a shorter way to the same order: without it the cells of all rows are ranked"

EQUIVALENT: dict[tuple[str, str, str, str, int], str] = {
    (
        _KINDS,
        "_in_set",
        "len(known) + 1",
        "len(known) + 2",
        0,
    ): "codes of pairs need a width above the largest code",
    (
        _POOL,
        "Pool.having_seen",
        "np.append(False, ranks[1:] != ranks[:-1])",
        "np.append(True, ranks[1:] != ranks[:-1])",
        0,
    ): "the first of all is the first of its owner, which is masked",
    (
        _FOUNDING,
        "_labels",
        "cut_near(table, PART, size, distinct=False)",
        "cut_near(table, PART, size, distinct=True)",
        0,
    ): "a person is one point, and so never more than a k-th of a part",
    (
        _FOUNDING,
        "_labels",
        "(np.empty(people, dtype=np.int64), 0.0, 0)",
        "(np.empty(people, dtype=np.int64), 0.0, 1)",
        0,
    ): "labels are numbered anew by who is first",
    (
        _FOUNDING,
        "_labels",
        "int(own.max()) + 1",
        "int(own.max()) + 2",
        0,
    ): "labels are numbered anew by who is first",
    (
        _FOUNDING,
        "_everybody",
        _JOINED.format(seed=0),
        _JOINED.format(seed=1),
        0,
    ): "without evaluations nothing is drawn",
    (_POOL, "Pool.having_seen", "-1", "-2", 2): "a place that is masked; which one is not read",
    (
        _LINEAGE,
        "judge",
        "slot.place < own.place",
        "slot.place <= own.place",
        0,
    ): "equal places were judged one line above",
    (_PUBLISH, "published_order", "boxes.of_row is None", "boxes.of_row is not None", 0): _WAYS,
    (_PUBLISH, "published_order", "ranks.size - 1", "ranks.size - 0", 0): _WAYS,
    (_PUBLISH, "_follow", "key == key[same]", "key != key[same]", 0): _WAYS,
    (
        _PUBLISH,
        "_follow",
        "ranks.max(initial=0)",
        "ranks.max(initial=1)",
        0,
    ): "room that nothing is written to",
    (
        _PUBLISH,
        "_follow",
        "int(ranks.max(initial=0)) + 1",
        "int(ranks.max(initial=0)) + 2",
        0,
    ): "room that nothing is written to",
    (_PUBLISH, "_keys_in_order", "of_row is not None", "of_row is None", 0): _WAYS,
}
