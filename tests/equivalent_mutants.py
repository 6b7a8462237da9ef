"""Mutants that no test can kill, each with the reason why it changes nothing that could be seen.

(module, function, expression, what it becomes, number of the equal one within the function): the reason
"""

_KINDS = "transforms/publishing/gate_kinds.py"
_JUDGE, _LASTING, _READ = (f"pipelines/audit/{room}" for room in ("judge", "lasting", "read"))
_POOL = "transforms/roster/pool.py"
_FOUNDING = "transforms/roster/founding.py"
_INTAKE = "transforms/protections/intake.py"
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
        _INTAKE,
        "enter",
        "cohort < 0",
        "cohort <= 0",
        0,
    ): "nobody of a cohort is in the pool, which is asked besides",
    (
        _INTAKE,
        "enter",
        "cohort < 0",
        "cohort < 1",
        0,
    ): "nobody of a cohort is in the pool, which is asked besides",
    (
        _FOUNDING,
        "_apart",
        "(np.empty(table.records, dtype=np.int64), 0.0, 0)",
        "(np.empty(table.records, dtype=np.int64), 0.0, 1)",
        0,
    ): "cohorts are numbered anew, one after the other",
    (
        _FOUNDING,
        "_apart",
        "int(its.max()) + 1",
        "int(its.max()) + 2",
        0,
    ): "cohorts are numbered anew, one after the other",
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
    (_POOL, "_first_of_each", "-1", "-2", 1): "a place that is masked; which one is not read",
    (
        _LINEAGE,
        "judge",
        "slot.place < own.place",
        "slot.place <= own.place",
        0,
    ): "equal places were judged one line above",
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
    (_PUBLISH, "_keys_in_order", "boxes.of_row is not None", "boxes.of_row is None", 0): _WAYS,
    (_PUBLISH, "_keys_in_order", "boxes is not None", "boxes is None", 1): _WAYS,
    (_PUBLISH, "_keys_in_order", "boxes.of_row is not None", "boxes.of_row is None", 1): _WAYS,
    # Of the modules that judge.
    (
        f"{_JUDGE}/candidate_graph.py",
        "candidate_graph",
        "np.zeros(0, np.int32)",
        "np.zeros(1, np.int32)",
        0,
    ): "the pass that counts writes no columns",
    (
        f"{_JUDGE}/candidate_graph.py",
        "_selectivity_order",
        "rows.high[:, field] + 2",
        "rows.high[:, field] + 3",
        0,
    ): "by which field is looked first is a matter of time",
    (
        f"{_JUDGE}/candidate_graph.py",
        "module",
        "330000000",
        "329999999",
        0,
    ): "a bound of memory: what is above is refused by name",
    (f"{_JUDGE}/concealment.py", "_components", "-1", "-2", 0): "any number below 0 is no component",
    (
        f"{_JUDGE}/held.py",
        "module",
        "4000000",
        "3999999",
        0,
    ): "how much is judged at once is a matter of memory",
    (f"{_LASTING}/class_numbers.py", "module", "3", "4", 0): "how many digests are tried is a matter of time",
    (
        f"{_LASTING}/cohort_cover.py",
        "module",
        "1 << 40",
        "1 << 41",
        0,
    ): "more rows than any feed has, either way",
    (
        f"{_READ}/boxes.py",
        "encode_boxes",
        "-1",
        "-2",
        0,
    ): "either is below the least code, so the range is empty",
    (
        f"{_LASTING}/due_releases.py",
        "due_releases",
        "settled >= 0",
        "settled >= 1",
        1,
    ): "whether a pass changed anything: another pass changes nothing",
    (
        f"{_LASTING}/followed_groups.py",
        "module",
        "512",
        "513",
        0,
    ): "how much is searched is a matter of time: what is left over is told as not followed",
    (
        f"{_LASTING}/followed_groups.py",
        "module",
        "20000",
        "20001",
        0,
    ): "how much is searched is a matter of time: what is left over is told as not followed",
    (
        f"{_JUDGE}/ranks.py",
        "ranks_within",
        "(values[:, None, :] == values[:, :, None]).sum(axis=2)",
        "(values[:, None, :] == values[:, :, None]).sum(axis=1)",
        0,
    ): "who equals whom is the same both ways",
}
