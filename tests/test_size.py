"""The law of size: how often the product asks what a thing is, and how much of it there is.

An ask is the name of a kind, a protection or a format in a condition: ``if``, ternary, ``match``, a comprehension's
``if``, a comparison, ``isinstance``. It is read from the syntax, so that another spelling of the same question counts
as much. What varies shall be an object that is told, not a word that is asked at: counts reached may only fall.

To add a question: a line of ASKS. Who lowers a count writes the new one here, in the same commit.
"""

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = ("pipelines", "transforms", "solvers", "schemas")
SLACK = 0.9
"""A count below this share of its limit is a count reached: the limit has to say so."""


class Asks(NamedTuple):
    """A question, by the words that ask it in a condition, and the most files and places that may.

    names: names and attributes. dotted: ends of dotted names, for words that mean other things elsewhere. texts: of
    what is compared or matched. calls: prefixes of dotted names that ask wherever they stand. rooms: folders whose
    classes ask by their names as well.
    """

    files: int
    places: int
    names: frozenset[str] = frozenset()
    dotted: tuple[str, ...] = ()
    texts: frozenset[str] = frozenset()
    calls: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ()


ASKS = {
    "kind of field or form of value": Asks(
        files=27,
        places=160,
        names=frozenset(
            {
                "QuasiType",
                "Kind",
                "Ranges",
                "Nodes",
                "ValueSets",
                "RangeDomain",
                "SetDomain",
                "hierarchy",
                "grid_kind",
                "MILLISECONDS",
                "MICROSECONDS",
                "TIME_OF_DAY",
                "is_text",
                "is_uuid",
            }
        ),
        dotted=("column.kind", "quasi.type"),
        texts=frozenset(
            {
                "numeric",
                "categorical",
                "hierarchy",
                "prefix",
                "integer",
                "float",
                "decimal",
                "date",
                "timestamp",
                "int",
                "long",
                "double",
                "string",
                "boolean",
            }
        ),
        calls=(
            "pa.types.is_",
            "types.is_",
            "pa.string(",
            "pa.date32(",
            "pa.float",
            "pa.int",
            "pa.bool_(",
            "pa.uint",
        ),
        rooms=("schemas/kinds", "transforms/kinds"),
    ),
    "protection": Asks(
        files=14,
        places=20,
        names=frozenset(
            {
                "Protection",
                "Cohort",
                "lasting",
                "by_levels",
                "closed",
                "ruled",
                "GeneralizationGraph",
                "Partition",
            }
        ),
        dotted=("policy.individual",),
    ),
    # Not which it is, but one thing of it; a new protection answers by its object. Shown so that no name hides an ask.
    "what a protection is good for": Asks(
        files=25,
        places=30,
        dotted=(
            "promise.epochs",
            "promise.of_people",
            ".can_divide",
            ".read_once",
            "policy.owner",
            "protection.merges",
            "protection.lasts",
        ),
    ),
    "release format": Asks(files=5, places=5, names=frozenset({"ReleaseFormat", "SUFFIXES"})),
}

MOST_ARGUMENTS = 9

EMPTY_WORDS = frozenset({"told", "found", "known", "kept", "given"})
"""Names that say that something was done with a thing, and not what it is."""
EMPTY_NAMES = 620
"""How often the product binds one of them: variables, parameters, members, functions and classes."""

LINES = {
    "pipelines": [
        (35_500, "as counted"),
        (35_600, "releases of prefixes are asked without a file"),
        (36_000, "the audit judges each protection by an object of its own, in one file"),
        (36_850, "roles by evidence: what values look like, how people keep them, whose the rows are"),
        (36_990, "attributes of people that are published as they are are found, and refused"),
        (37_040, "a full disk, an interrupt and intakes of few people are said with the remedy"),
        (37_090, "runs whose cohorts do not last are a chain of places"),
        (37_160, "the certificate says how each field is published"),
        (37_310, "a quote that the next row's closes is found, block by block"),
        (
            37_330,
            "a torn value is told by its line; flags of people are refused where no people are handed on",
        ),
        (37_360, "a chain whose policy changed is told so"),
        (37_397, "a chain whose night was released again promises nothing from there on"),
        (
            39_660,
            "kanonflow assess: releases are attacked, by each reader, against people who are not in them",
        ),
        (
            39_710,
            "copies beside each other and successors that are gone are refused; false alarms of the audit mended",
        ),
        (
            39_850,
            "flags before places in every command; what is compiled, and how long explain takes, is said before",
        ),
        (
            40_080,
            "copies of outputs and in a watched folder, what else may not change in a chain, equal rows in other bytes",
        ),
        (40_090, "Parquet text that is none, and UTF-16 without a mark, are refused by name"),
        (
            40_930,
            "inputs of JSON lines, records within records, workbooks and standard input; names by shape",
        ),
        (41_480, "people known from the start, and their audit"),
        (41_488, "a time zone that nobody knows is refused by name"),
        (
            40_315,
            "the measures of payload stand among the transforms, whose step takes them for first windows",
        ),
        (40_340, "a figure of assess above its limit is told with what to do"),
        (
            41_720,
            "partitions cut into shards: plan and trial, runs and chains by it, the audit's own reading of it",
        ),
        (42_750, "a shard is split between two runs, and judged over the chain; a report tells of shards"),
        (42_875, "plans of rows, and what went by them judged"),
        (43_075, "verify reads each distinct cell of a release once"),
        (
            43_117,
            "of a local run's metrics our own are kept; the rows of a file are looked at in large pieces",
        ),
        (43_220, "whom files of two runs named first are people of two kinds, for the audit too"),
        (43_290, "what is looked at before a run is read once"),
        (43_350, "payload on grids is worked out anew by the audit, and told by pages"),
        (
            43_510,
            "payload is measured on rows of all over the files; drawings without an engine or a process",
        ),
        (43_910, "several readers share a topic, with the time of one and one end"),
        (44_250, "large files are read in splits, in the batches of the whole file"),
        (44_410, "the audit tries what leaves too few people to a reader who knows more"),
        (44_460, "chains without event ids know files by rows; people named too few are judged by theirs"),
        (44_480, "explain plays clauses against readers who know more"),
        (44_520, "estimates by parts that cut windows say so; each window is asked for"),
        (44_625, "an estimate asks each distinct box once"),
        (44_670, "places of a scheme that nothing writes to are refused by name"),
        (44_710, "events that two runs of a chain have released are found"),
        (44_790, "rules of values with cohorts that last: told and judged"),
        (45_060, "the audit cuts CSV into columns, held to its reading by rows"),
        (45_320, "a number a person: told by pages, worked out again by the audit"),
        (46_080, "renewals: laid down, told before and after, judged between two epochs"),
        (46_250, "ids of groups are audited"),
        (46_570, "measured clauses over an epoch: told and counted again; whom no size of cohorts helps"),
        (47_600, "releases are imputed for models: people of hulls, weighed by an outcome, Rubin's rules"),
        (49_010, "a release is asked quantiles, variances, ratios, shares and top lists, all groups at once"),
        (49_340, "counts and sums go by how people lie in their boxes; rows cut into shares"),
        (50_000, "reports begin with four numbers and pictures"),
        (50_150, "where people crowd in a domain is noticed, with the scale that mends it"),
        (51_040, "explain tries what counts by some fields need; a report says what they will be off by"),
        (51_640, "releases go to tables of Iceberg, and are told of to OpenLineage, once"),
        (52_220, "plausible intervals beside the certain bounds"),
        (
            52_580,
            "compare tells the measures of the literature, learns a class field, and sweeps suppression",
        ),
        (52_730, "the audit walks Avro and cuts CSV in kernels, and loads nothing of a run"),
    ],
    "transforms": [
        (13_300, "as counted first"),
        (13_700, "the warm state in cells of its own; protections as objects"),
        (13_900, "kinds of quasi-identifiers as objects"),
        (13_930, "the gate reads a structure by an object of its own"),
        (14_000, "type: prefix, with its gate"),
        (14_050, "windows that an older build told are told once"),
        (14_060, "cohorts that last are founded by SIL, too"),
        (14_145, "a pipeline that releases nothing says so; progress is told before anything is written"),
        (14_175, "damaged state is told so, whatever is wrong with it"),
        (14_690, "people known from the start: of files, collections and tables"),
        (14_740, "a collection of people that a runner cuts is one collection"),
        (15_970, "the measures of payload, from pipelines"),
        (16_360, "first windows are measured, checks taken by digest, idle boxes asked about"),
        (16_405, "a short window asks Arrow a third as often: what is not needed is not asked"),
        (16_430, "large intakes are founded in pieces of a tree"),
        (16_545, "keys of shards, dealt to Flink's key groups"),
        (
            18_380,
            "shards: plans in values, keys dealt to key groups, the route of strangers; windows split by fields",
        ),
        (19_040, "a shard is split between two runs: its cohorts, its pool, its rows that wait"),
        (19_110, "shards of rows"),
        (19_140, "what neighbouring rows share is encoded once; a local run hands releases on as they are"),
        (19_185, "whom files of two runs named first are people of two kinds"),
        (19_245, "what begins once in a graph of any parallelism, from pipelines"),
        (19_335, "cells of payload on fixed public grids"),
        (19_355, "a measure says what it may be of more rows"),
        (19_425, "elements that spread the readers of a feed over Flink's workers"),
        (19_820, "rows go out only if a reader who knows more is left with k people"),
        (19_900, "a number a person, with its gate"),
        (20_100, "rules of values with cohorts that last: merged for a release, counted over the epoch"),
        (20_415, "renewals: cohorts that are kept, of blocks, or searched"),
        (20_460, "people of an intake that came to nothing stay together"),
        (20_540, "ids of groups"),
        (20_890, "whom measured clauses leave is counted over the epoch, and streams say so"),
        (21_060, "how people crowd in a domain is measured"),
        (21_110, "parameters of a method, refused by name elsewhere"),
        (21_165, "what a solver sees of a table, for those who try solvers"),
        (21_310, "one module knows where files are; metrics tell measures of classes and levels"),
        (21_430, "boxes of cohorts and groups are made at once, the pool's fields too; few texts by Python"),
        (21_470, "a large feed lies compressed between steps of one process, and what was freed goes back"),
    ],
    "solvers": [
        (19_350, "one partition search; no measures that only benchmarks ask for"),
        (19_950, "a cut of people by a tree, that can be written and places new people"),
        (19_970, "cuts by cells alone and by tests alone, to be tried beside both"),
        (20_010, "a cut by a tree that parts no equal people, for rows"),
        (20_020, "old classes are a start as a whole, too"),
        (20_050, "mending asks no unit twice, and bounds what it asks"),
        (20_290, "groups of cohorts are merged on until their values meet a rule"),
        (20_450, "parameters of a method by name"),
        (20_560, "measures of classes, which benchmarks had for themselves"),
        (20_700, "Mondrian cuts categories by frequency; OKA's centroids know hierarchies"),
        (20_870, "small codes are counted; a state is built once, and a search without a trace is one round"),
        (
            21_000,
            "cuts are handed on, a crossing is priced once a unit; solvers are loaded when they are asked for",
        ),
    ],
    "schemas": [
        (5_950, "as counted first"),
        (6_150, "cells of columns read in one place, for the audit too; what cohorts that last always have"),
        (
            7_000,
            "kinds and forms as objects, each with its words: a new one touches no other file of the floor",
        ),
        (7_360, "what each protection promises, in one room: pages, check, runs and explain had it each"),
        (
            7_840,
            "type: prefix: trees over values that nobody lists; a draft asks whether rows are people",
        ),
        (7_920, "assess: limits of what a release may give away"),
        (7_935, "a policy may be a mapping"),
        (7_947, "each promise says whether it is proved, or tested only"),
        (7_960, "what JSON lines, workbooks and numbered headers say"),
        (7_990, "people known from the start"),
        (8_040, "intakes that grow with the people who have entered"),
        (8_051, "an array is cast, and asked for nulls, where it is needed only"),
        (8_081, "windows of cohorts that last are split by fields of rows"),
        (8_150, "what is no text, no date and no number in a policy or schema is told by name"),
        (8_165, "which promises go by a plan of shards, and who enters for good"),
        (
            8_500,
            "payload that tells less: grids of single cells, their rules and words, hours of the event time",
        ),
        (8_755, "a policy says against which reader, in clauses of two classes"),
        (8_760, "whether event ids are handed on is the policy's to say"),
        (8_790, "clauses to play against readers who know more"),
        (8_810, "drafts begin weeks on Mondays"),
        (8_930, "publish_member: its rules and words"),
        (9_075, "rules of values per release or per epoch"),
        (9_150, "renew: its keys and words"),
        (9_175, "absences that a reader knows are measured"),
        (9_310, "publish_group: its rules and words"),
        (9_400, "how many people a measured clause should leave with k; premises under headings"),
        (9_680, "widths count by a scale: its maps, keys and rules"),
        (9_840, "hierarchies of decimals, between quantiles and by formats of dates"),
        (9_910, "few values are ranked, and looked up in a hierarchy, by Python"),
    ],
}
"""Lines a floor, each step with the capability that it bought; the last one holds."""
CODE = [
    (52_700, "as counted first"),
    (52_800, "the warm state in cells of its own; protections as objects"),
    (53_200, "kinds and forms as objects"),
    (53_300, "type: prefix: trees over values that nobody lists, with gate, judge and reader of their own"),
    (53_500, "protections as objects of the audit"),
    (54_200, "roles by evidence"),
    (54_230, "runs whose cohorts do not last are a chain of places"),
    (54_280, "what people keep and publish exactly; how each field is published, on the certificate"),
    (54_370, "a quote that the next row's closes is found, by the run and by the audit"),
    (54_390, "a torn value is told by its line; flags of people are refused where no people are handed on"),
    (54_410, "a chain whose policy changed is told so"),
    (54_431, "a chain whose night was released again promises nothing from there on"),
    (56_240, "kanonflow assess"),
    (56_415, "manners: what releases nothing, compiles or takes long says so; one spelling of arguments"),
    (56_565, "copies of outputs, what else may not change in a chain, equal rows in other bytes"),
    (56_600, "damaged state, and text that is none, are told by name; promises say whether they are proved"),
    (57_190, "inputs of JSON lines, records within records, workbooks and standard input; names by shape"),
    (58_020, "people known from the start"),
    (58_032, "a time zone that nobody knows is refused by name"),
    (58_050, "a collection of people that a runner cuts is one collection"),
    (58_105, "intakes that grow with the people who have entered"),
    (58_365, "first windows are measured, checks taken by digest, idle boxes asked about"),
    (58_405, "a draft's window is the one that explain has nothing against"),
    (58_450, "a short window asks Arrow a third as often"),
    (58_875, "a cut of people by a tree"),
    (58_890, "a figure of assess above its limit is told with what to do"),
    (58_935, "keys of shards, dealt to Flink's key groups"),
    (61_250, "partitions cut into shards, with their audit; windows split by what people do not keep"),
    (61_400, "what is no text, no date and no number in a policy, schema or header is told by name"),
    (62_570, "a shard is split between two runs, with its audit; a report tells of shards"),
    (62_740, "shards of rows, with their audit"),
    (62_815, "verify reads each distinct cell of a release once"),
    (62_830, "what neighbouring rows share is encoded once"),
    (62_940, "of a local run's metrics our own are kept; the rows of a file are looked at in large pieces"),
    (63_035, "whom files of two runs named first are people of two kinds, for the audit too"),
    (63_110, "what is looked at before a run is read once; who waits by a file is not parted from his kind"),
    (63_480, "payload on fixed public grids, with its audit"),
    (63_590, "payload is measured on rows of all over the files; drawings without an engine or a process"),
    (63_600, "old classes are a start as a whole, too"),
    (63_900, "several readers share a topic, with the time of one and one end"),
    (64_125, "large files are read in splits, in the batches of the whole file"),
    (64_700, "k people are left to a reader who knows more, with the audit of it"),
    (64_740, "chains without event ids know files by rows; people named too few are judged by theirs"),
    (64_790, "explain plays clauses against readers who know more"),
    (64_830, "estimates by parts that cut windows say so; drafts begin weeks on Mondays"),
    (64_890, "an estimate asks each distinct box once"),
    (64_925, "places of a scheme that nothing writes to are refused by name"),
    (64_950, "events that two runs of a chain have released are found"),
    (65_155, "the audit cuts CSV into columns; mending asks no unit twice"),
    (65_500, "a number a person over an epoch, with its audit"),
    (65_980, "rules of values with cohorts that last"),
    (66_790, "renewals, with their audit"),
    (66_890, "absences are measured; people of an intake that came to nothing stay together"),
    (67_170, "groups that can be followed, with their audit"),
    (67_690, "measured clauses are counted over an epoch, with their audit"),
    (68_410, "releases are imputed for models"),
    (69_380, "a release is asked quantiles, variances, ratios, shares and top lists, all groups at once"),
    (69_590, "counts and sums go by how people lie in their boxes; rows cut into shares"),
    (70_090, "reports begin with four numbers and pictures"),
    (70_460, "widths count where the people are"),
    (71_150, "explain tries what counts by some fields need; a report says what they will be off by"),
    (71_640, "releases go to tables of Iceberg, and are told of to OpenLineage, once"),
    (71_950, "plausible intervals beside the certain bounds"),
    (72_070, "parameters of a method by name"),
    (72_110, "what a solver sees of a table, for those who try solvers"),
    (72_630, "measures of classes and levels in metrics and compare, more hierarchies without a file"),
    (72_810, "categories cut by frequency, centroids that know hierarchies"),
    (
        73_240,
        "states, boxes, cuts and values of few rows are asked once; the audit reads by kernels of its own",
    ),
]
"""Lines of all floors without docstrings, comments and blanks."""


def sources(*floors: str) -> list[Path]:
    """The product's own files."""
    return sorted(path for floor in floors for path in (ROOT / floor).rglob("*.py"))


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of a name or attribute, with ``(`` behind a call; "" for anything else in front of the last dot."""
    if isinstance(node, ast.Call):
        return f"{dotted(node.func)}("
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def conditions(tree: ast.AST) -> Iterator[ast.AST]:
    """Every part of a source that decides something."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            yield node.test
        elif isinstance(node, ast.comprehension):
            yield from node.ifs
        elif isinstance(node, ast.Match):
            yield node.subject
            yield from (case.pattern for case in node.cases)
            yield from (case.guard for case in node.cases if case.guard is not None)
        elif isinstance(node, ast.Compare) or (
            isinstance(node, ast.Call) and dotted(node.func) in ("isinstance", "issubclass")
        ):
            yield node


@cache
def classes_of(room: str) -> set[str]:
    """Names of the classes that a room defines."""
    files = (ROOT / room).rglob("*.py")
    trees = (ast.parse(file.read_text()) for file in files)
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def asked(text: str, asks: Asks) -> int:
    """At how many places a source asks."""
    names = asks.names.union(*map(classes_of, asks.rooms))
    tree, found = ast.parse(text), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Call) and dotted(node).startswith(asks.calls or ("\0",)):
            is_type = dotted(node).startswith("pa.") and not dotted(node).startswith("pa.types.")
            found |= set() if is_type else {place(node)}
    for condition in conditions(tree):
        for node in ast.walk(condition):
            told = dotted(node)
            word = told.rpartition(".")[2] if isinstance(node, ast.Name | ast.Attribute) else ""
            compared = isinstance(node, ast.Constant) and isinstance(condition, ast.Compare | ast.MatchValue)
            if (
                word in names
                or told.endswith(asks.dotted or ("\0",))
                or told.startswith(asks.calls or ("\0",))
                or (compared and node.value in asks.texts)
            ):
                found.add(place(node))
    return len(found)


def place(node: ast.AST) -> tuple[int, int]:
    """Where a name ends: an attribute and the call of it are one place."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]


def places(asks: Asks) -> Counter[str]:
    """File -> places."""
    return +Counter({str(path.relative_to(ROOT)): asked(path.read_text(), asks) for path in sources(*FLOORS)})


def code_lines(text: str) -> int:
    """Lines of a source that hold code: no docstring, comment or blank."""
    tree = ast.parse(text)
    held = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            held |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
                held -= (
                    set(range(part.lineno, part.end_lineno + 1))
                    if isinstance(part.value.value, str)
                    else set()
                )
    return len(held)


_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("if quasi.type is QuasiType.DATE: pass", 2),
        ("x = 1 if pa.types.is_date(kind) else 2", 1),
        ("y = pa.types.is_date(kind) or pa.types.is_time(kind)", 2),
        ("match kind:\n case QuasiType.DATE: pass\n case 'date': pass", 2),
        ("z = [a for a in b if a.hierarchy is not None]", 1),
        ("isinstance(a, Ranges | Nodes)", 2),
        ("if kind == pa.date32(): pass", 1),
        ("if kind in ('date', 'timestamp'): pass", 2),
        ("x = QuasiType.DATE; y = pa.date32(); s = 'date'; z = a.hierarchy", 0),
    ],
)
def test_every_spelling_of_an_ask_is_counted(text: str, count: int) -> None:
    """Conditions, whatever their form, and predicates wherever they stand; naming a thing is no ask."""
    assert asked(text, ASKS["kind of field or form of value"]) == count


def test_code_is_counted_without_what_explains_it() -> None:
    """Docstrings, comments and blank lines are no code; a text that is a value is."""
    assert code_lines('"""a\nb"""\n\n# c\nx = """d\ne"""\n\ndef f():\n    """g"""\n    return 1  # h\n') == 4


@pytest.mark.parametrize("question", ASKS)
def test_asks_only_fall(question: str) -> None:
    """No more files and places ask than the count that was reached."""
    limit = ASKS[question]
    found = places(limit)
    worst = ", ".join(f"{file} {count}" for file, count in found.most_common(12))
    told = f"{question}: {found.total()} places in {len(found)} files; {worst}"
    assert len(found) <= limit.files, told
    assert found.total() <= limit.places, told
    assert len(found) >= SLACK * limit.files, f"write the count reached: {told}"
    assert found.total() >= SLACK * limit.places, f"write the count reached: {told}"


def test_functions_of_solvers_take_few_arguments() -> None:
    """At most nine: more are a thing without a name. Kernels are exempt, to which numba gives no better way."""
    many = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in sources("solvers")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and not any("kernel" in dotted(made).split("(")[0] for made in node.decorator_list)
        and len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]) > MOST_ARGUMENTS
    ]
    assert many == []


NAMED = (
    ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.MatchAs | ast.MatchStar | ast.ExceptHandler
)


def bound_names(text: str) -> Iterator[str]:
    """The name of everything that a source binds: stored names and members, parameters, functions and classes."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, NAMED) and node.name:
            yield node.name


def test_every_way_to_bind_a_name_is_counted() -> None:
    """And no use of one."""
    text = "def told(known, *given): kept = known\nclass found: _told: int\nx.kept = [kept for kept in y]\nprint(found)"
    assert sorted(name.strip("_") for name in bound_names(text) if name.strip("_") in EMPTY_WORDS) == sorted(
        ["told", "known", "given", "kept", "found", "told", "kept", "kept"]
    )


def test_names_that_name_nothing_only_fall() -> None:
    """No more variables, parameters and functions are called told, found, known, kept or given than were reached."""
    counts = Counter(
        {
            str(path.relative_to(ROOT)): sum(
                name.strip("_") in EMPTY_WORDS for name in bound_names(path.read_text())
            )
            for path in sources(*FLOORS)
        }
    )
    worst = ", ".join(f"{file} {count}" for file, count in counts.most_common(12))
    assert SLACK * EMPTY_NAMES <= counts.total() <= EMPTY_NAMES, f"{counts.total()} of {EMPTY_NAMES}: {worst}"


@pytest.mark.parametrize("floor", LINES)
def test_lines_of_a_floor_rise_for_a_capability_only(floor: str) -> None:
    """Lines are paid for: a commit that needs more says what they buy."""
    limit, _ = LINES[floor][-1]
    lines = sum(len(path.read_text().splitlines()) for path in sources(floor))
    assert SLACK * limit <= lines <= limit, f"{floor} has {lines} lines, of {limit}"


def test_code_rises_for_a_capability_only() -> None:
    """The same of code without what explains it, over all floors."""
    limit, _ = CODE[-1]
    lines = sum(code_lines(path.read_text()) for path in sources(*FLOORS))
    assert SLACK * limit <= lines <= limit, f"the product has {lines} lines of code, of {limit}"
