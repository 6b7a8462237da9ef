"""Every key of a policy, once: what reads, writes and documents policies goes by these tables.

HEAD: the keys at the top of a policy file. SOLVER, CSV, AGAINST, RENEW: those under their keys. FIELD: those of a field
under ``fields``, of which QUASI are for quasi-identifiers. Rules that need more than one key are in ``policy_rules``.
"""

from __future__ import annotations

from kanonflow.schemas.against import Against, KnownItems
from kanonflow.schemas.declared_hierarchies import FOLDER_KEY
from kanonflow.schemas.key_kinds import (
    Choice,
    Duration,
    Exactly,
    Given,
    Group,
    Key,
    Lengths,
    Names,
    Number,
    Numbers,
    Reason,
    Text,
    Whole,
    Words,
    Written,
    YesNo,
    plain,
)
from kanonflow.schemas.policy_choices import (
    AssessLimits,
    Cohort,
    JudgedBy,
    MetricsAccess,
    Others,
    Protection,
    SolverChoice,
)
from kanonflow.schemas.policy_fields import (
    Closeness,
    ClosenessDistance,
    Diversity,
    DiversityKind,
    Outside,
    Per,
    QuasiType,
    Role,
    ScaleName,
)
from kanonflow.schemas.prefix_tree import PrefixOf
from kanonflow.schemas.published_group import GROUP_ID, published_group
from kanonflow.schemas.published_member import NAME, published_member
from kanonflow.schemas.renew import MIN_PEERS, Renew, RenewedCohorts
from kanonflow.schemas.text_form import Fold, csv_form

__all__ = [
    "AGAINST",
    "ASSESS",
    "CSV",
    "DURATIONS",
    "FIELD",
    "HEAD",
    "LATER",
    "NO_SLIDING",
    "OF_LASTING",
    "QUASI",
    "RENEW",
    "SLIDING",
    "SOLVER",
]

SLIDING = ("slide", "every", "period")
"""Keys of sliding windows in other systems."""
NO_SLIDING = (
    "sliding windows would publish a row several times, and the boxes of its copies narrow it down "
    "together; use fixed windows (window: 1d)"
)
LATER = {
    "max_share": "a limit on one person's share of a box's rows",
}
"""Keys that this version refuses by name, and what each will be."""
_VERSION = "this version of kanonflow reads policies of version 1"

SOLVER = (
    Key(
        "method",
        Text("name"),
        "The solver, one of docs/solvers.md.",
        "method",
        default="auto",
        written=Written.ALWAYS,
    ),
    Key(
        "start",
        Text("name"),
        "Where the search starts, a start or solver of docs/solvers.md.",
        "start",
        default="auto",
        written=Written.ALWAYS,
    ),
    Key(
        "evaluations_per_row",
        Number("a positive number", above=0),
        "Moves that the search may try, a row.",
        "evaluations_per_row",
        default_told="the solver's, by k",
        written=Written.ALWAYS,
    ),
    Key(
        "deadline",
        Duration(more_than_nothing=True),
        "Wall-clock limit of a window's search, besides its evaluations; what is found then depends on the machine.",
        "deadline_ms",
        default_told="none",
        written=Written.ALWAYS,
    ),
    Key(
        "threads",
        Whole(1),
        "Threads of a window's search.",
        "threads",
        default_told="one a core",
        written=Written.ALWAYS,
    ),
    Key(
        "seed",
        Whole(0),
        "Seed of the search in the place of one from the secret, for benchmarks; it never drives publishing.",
        "seed",
        default_told="from the secret",
        written=Written.ALWAYS,
    ),
    Key(
        "loss",
        Text("ncp, sil"),
        "What the search lowers: ncp, or sil; the metrics tell both.",
        "loss",
        default="ncp",
        written=Written.CHANGED,
    ),
    Key(
        "suppression",
        Number("a share of the rows, at least 0 and below 1", least=0, below=1),
        "Of solvers that publish levels: the share of a window's rows that they may reject for lower levels.",
        "suppression",
        default=0.0,
        written=Written.CHANGED,
    ),
)

_SHARE = Number("a share, from 0 to 1", least=0, most=1)
ASSESS = (
    Key(
        "singling_out",
        _SHARE,
        "Share of predicates out of released attributes that match exactly one person.",
        "singling_out",
        default=0.15,
    ),
    Key(
        "linkability",
        _SHARE,
        "Share of people of whom two halves of their attributes are linked by a released row.",
        "linkability",
        default=0.05,
    ),
    Key(
        "inference",
        _SHARE,
        "Share of payload values that are guessed from attributes, of the field that is guessed best.",
        "inference",
        default=0.05,
    ),
    Key(
        "exact_uniqueness",
        _SHARE,
        "Share of rows that are alone in what is published exactly and may be known of people.",
        "exact_uniqueness",
        default=0.05,
    ),
    Key(
        "by",
        Choice(JudgedBy),
        "What is judged: upper ends of 95% intervals, or figures.",
        "by",
        default=JudgedBy.UPPER,
    ),
)

_PER = Key(
    "per",
    Choice(Per),
    "With cohort: lasting, what must show it: the groups of every release, whose cohorts are merged further for that"
    " release, a floor for readers who do not link releases; or each cohort over the epoch, which is measured only.",
    "per",
    default_told="release, and with cohort: lasting it has to be there",
)
_MAX_FAILING = Key(
    "max_failing",
    Number("a share of people, from 0 to 1", least=0, most=1),
    "With per: epoch, share of the people released in cohorts that do not show it, above which a run ends with exit"
    " code 3.",
    "max_failing",
    default_told="it is told, and ends no run",
)
_DIVERSITY = (
    Key("kind", Choice(DiversityKind), "How the different values of a class are counted.", "kind"),
    Key("l", Number("a number", whole=True), "How many different values each class must show.", "l"),
    _PER,
    _MAX_FAILING,
)
_CLOSENESS = (
    Key("distance", Choice(ClosenessDistance), "How far two values are from each other.", "distance"),
    Key("t", Number("a number"), "How far a class may be from the whole release, between 0 and 1.", "t"),
    _PER,
    _MAX_FAILING,
)

QUASI = (
    Key(
        "type",
        Choice(QuasiType),
        "How a quasi-identifier is generalized.",
        "type",
        missing=("missing; a quasi-identifier is numeric, date, categorical, hierarchy or prefix"),
    ),
    Key(
        "domain",
        Given(
            "[low, high], or a list of texts",
            {"type": "array", "items": {"type": ["string", "number"]}},
            lambda ends: [plain(end) for end in ends],
        ),
        "All values that a quasi-identifier can have; the loss is measured against it.",
        "domain",
        default_told="what was seen so far",
    ),
    Key(
        "hierarchy",
        Given(
            "file, rows, or a mapping that builds it",
            {"type": ["string", "array", "object"]},
            lambda hierarchy: [list(row) for row in hierarchy.rows],
        ),
        "Of type hierarchy: a file beside the policy, rows (a value first, then its labels), or how to build it.",
        "hierarchy",
    ),
    Key(
        "of",
        Choice(PrefixOf),
        "Of type prefix: what lengths count, characters of text or bits of addresses.",
        "of",
        default_told="text",
    ),
    Key(
        "lengths",
        Lengths(),
        "Of type prefix: how many characters or bits its labels keep, such as [1, 3] of 94110 for 9**** and 941**.",
        "lengths",
        default_told="of ipv4 [8, 16, 24], of ipv6 [32, 48, 64], of text of one size every length",
    ),
    Key(
        "size",
        Whole(2),
        "Of type prefix, of text: the characters of every value; others are rejected.",
        "size",
        default_told="they differ",
    ),
    Key(
        "grid",
        Given("auto, exact, a step, or a unit of time", {"type": ["string", "number"]}, plain),
        "What the ends of published ranges are rounded out to.",
        "grid",
        default="auto",
        written=Written.ALWAYS,
    ),
    Key(
        "weight",
        Number("a positive number"),
        "Weight of the field in the information loss.",
        "weight",
        default=1.0,
        written=Written.ALWAYS,
    ),
    Key(
        "outside",
        Choice(Outside),
        "What happens to a value outside of the domain: its row is rejected, or it is coded as the domain's end.",
        "outside",
        default=Outside.REJECT,
        written=Written.ALWAYS,
    ),
    Key(
        "scale",
        Choice(ScaleName),
        "Of type numeric, by what the width of a range counts as loss: by difference, by ratio, or by the share of"
        " people in it. It changes nothing else.",
        "scale",
        default=ScaleName.LINEAR,
        written=Written.CHANGED,
    ),
    Key(
        "quantiles",
        Numbers(),
        "Of scale rank: numbers that part the people evenly, such as their deciles without the ends; a draft writes"
        " them.",
        "quantiles",
    ),
    Key(
        "log_from",
        Number("a positive number", above=0, exact=True),
        "Of scale log: up to about this size differences count, beyond it ratios do.",
        "log_from",
        default_told="1",
    ),
)

FIELD = (
    Key(
        "role",
        Choice(Role),
        "What the field is for; a role alone may stand in the place of the mapping.",
        "role",
        missing="missing",
        written=Written.ALWAYS,
    ),
    Key(
        "as",
        Text(
            "int, long, float, double, string, boolean, date, timestamp, decimal(p,s); hour, weekday, part_of_day"
        ),
        "The type of the field's values: what text (CSV, JSON) is read as, and typed columns are cast to. Of payload"
        " that is read as timestamps: what of them is published.",
        "value",
        default_told="of text by the role, of typed columns their own",
    ),
    Key(
        "format",
        Text("such as %d.%m.%Y, or epoch_s, epoch_ms"),
        "Of dates and times, how text spells them (%Y %y %m %b %B %d %H %I %p %M %S %f %z), or since 1970 as a number.",
        "format",
        default_told="ISO 8601",
    ),
    Key(
        "timezone",
        Text("such as Europe/Prague"),
        "Of times, where those without a zone of their own are local.",
        "timezone",
        default_told="UTC",
    ),
    Key(
        "fold",
        Choice(Fold),
        "Of a timezone, what a local time means that exists twice, or not at all: by the offset before the clocks"
        " change, or by that after.",
        "fold",
        default_told="such a time is a bad value",
    ),
    Key(
        "also_quasi",
        YesNo(),
        "Of the time field: published generalized as well.",
        "also_quasi",
        default=False,
        written=Written.CHANGED,
        empty=False,
    ),
    *QUASI,
    Key(
        "from",
        Text("field name"),
        "Of payload that is an hour, weekday or part_of_day: the time field, whose cells these are.",
        "source",
        default_told="the column of the field's own name",
    ),
    Key(
        "round",
        Number("a positive number", above=0, exact=True),
        "Of payload that is a number: it becomes the nearest multiple, half way the even one.",
        "round",
        default_told="as it is",
    ),
    Key(
        "bottom",
        Number("a number", exact=True),
        "Of payload that is a number: what is below becomes this, a multiple of round.",
        "bottom",
        default_told="as it is",
    ),
    Key(
        "top",
        Number("a number", exact=True),
        "Of payload that is a number: what is above becomes this, a multiple of round.",
        "top",
        default_told="as it is",
    ),
    Key(
        "truncate",
        Whole(1),
        "Of payload that is text: so many characters from its beginning are published.",
        "truncate",
        default_told="as it is",
    ),
    Key(
        "accept_risk",
        Reason("the field's risk is accepted"),
        "Why a payload field is published although policy check found that it tells too much.",
        "accept_risk",
        empty=False,
    ),
    Key(
        "diversity",
        Group(_DIVERSITY, Diversity, example="{kind: frequency, l: 3}", whole=True),
        "Of a sensitive field: how many different values every class must show (l-diversity). Tested, not proved.",
        "diversity",
    ),
    Key(
        "closeness",
        Group(_CLOSENESS, Closeness, example="{distance: equal, t: 0.2}", whole=True),
        "Of a sensitive field: how near every class must be to the whole release (t-closeness). Tested, not proved.",
        "closeness",
    ),
)

DURATIONS = (
    Key(
        "window",
        Duration(refused=NO_SLIDING),
        "Length of the fixed windows of event time in which rows are released together.",
        "window_ms",
        default_told="the whole input is one window",
    ),
    Key(
        "window_offset",
        Duration(),
        "When windows start, after multiples of their length since 1970.",
        "window_offset_ms",
        default=0,
    ),
    Key(
        "max_delay",
        Duration(),
        "How long after the end of its own window a row may wait for enough people; also how late it may come.",
        "max_delay_ms",
        default=0,
    ),
    Key(
        "out_of_orderness",
        Duration(),
        "How long a window stays open after its end, for rows that arrive out of order.",
        "out_of_orderness_ms",
        default=0,
    ),
    Key(
        "max_ahead",
        Duration(),
        "How much later than its arrival a row's time may be, where the source tells arrivals; what is later is"
        " rejected.",
        "max_ahead_ms",
        default_told="1d in streams; none over files",
    ),
    Key(
        "state_ttl",
        Duration(),
        "How long state that nothing uses is kept.",
        "state_ttl_ms",
        default_told="30d, or twice window + max_delay if that is more",
    ),
)

_DROP = Key(
    "drop",
    YesNo(),
    "Rows go out only if enough people are left to who knows it, else they are rejected for good. Without: measured.",
    "drop",
    default=False,
    written=Written.CHANGED,
)
_OF = Key(
    "of",
    Names(),
    "Published fields that are known of each, as they are published, beside its window.",
    "of",
    default=(),
    default_told="has to be there",
    written=Written.CHANGED,
)
_WANTED = Key(
    "wanted",
    Number("a share of people, from 0 to 1", least=0, most=1),
    "Without drop, share of the people released who should be left with k over the epoch, below which a run ends with"
    " exit code 3.",
    "wanted",
    default_told="it is told, and ends no run",
)
_KNOWN_WINDOWS = (
    Key("count", Whole(1), "In how many windows the person is known to have rows.", "count", 1),
    _DROP,
    _WANTED,
)
_KNOWN_PURCHASES = (
    Key("count", Whole(1), "How many rows of the person are known.", "count", 1),
    _OF,
    _DROP,
    _WANTED,
)
_KNOWN_ABSENCES = (Key("count", Whole(1), "How many windows in a row without rows are known.", "count", 1),)
AGAINST = (
    Key(
        "known_people",
        Whole(0),
        "Other people of the cohort whose rows are known: cohorts are of k more than that. Guaranteed.",
        "known_people",
        0,
        written=Written.CHANGED,
    ),
    Key(
        "known_windows",
        Group(_KNOWN_WINDOWS, KnownItems),
        "Windows in which the person has rows. Guaranteed with drop, of rows that are out; else measured.",
        "known_windows",
        default_told="none",
    ),
    Key(
        "known_purchases",
        Group(_KNOWN_PURCHASES, KnownItems),
        "Rows of the person, each by its window and published fields. Guaranteed with drop, of rows that are out; else"
        " measured.",
        "known_purchases",
        default_told="none",
    ),
    Key(
        "known_absences",
        Group(_KNOWN_ABSENCES, KnownItems),
        "Windows in a row, between two with rows, in which the person has none: a holiday. Measured by dry runs alone;"
        " it takes no wanted.",
        "known_absences",
        default_told="none",
    ),
    Key(
        "max_dropped",
        Number("a share of the rows, from 0 to 1", least=0, most=1),
        "Share of the rows read that may be dropped; above it a run ends with exit code 3.",
        "max_dropped",
        default_told="0.05",
    ),
)

RENEW = (
    Key(
        "cohorts",
        Choice(RenewedCohorts),
        "What becomes of them: kept, with new values; of blocks that stay together; or searched for.",
        "cohorts",
        default=RenewedCohorts.KEPT,
        written=Written.CHANGED,
    ),
    Key(
        "min_peers",
        Whole(2),
        "People, the person among them, whom a reader of both epochs is left with at least; a block has so many.",
        "min_peers",
        default=MIN_PEERS,
        written=Written.CHANGED,
    ),
    Key(
        "accept_risk",
        Reason("readers of both epochs may be left with fewer"),
        "Why it is accepted that some are left with fewer.",
        "accept_risk",
    ),
)

_MEMBER = (
    Key(
        "name",
        Text("column name"),
        "Of that column. No field has it.",
        "name",
        default=NAME,
        written=Written.ALWAYS,
    ),
    Key(
        "accept_risk",
        Reason("every reader may link the rows of a person"),
        "Why every reader may link the rows of a person.",
        "accept_risk",
        missing="missing; say why every reader may link the rows of a person",
    ),
)

_GROUP = (
    Key(
        "name",
        Text("column name"),
        "Of the column of ids. No field has it.",
        "name",
        default=GROUP_ID,
        written=Written.ALWAYS,
    ),
    Key(
        "members",
        Text("column name"),
        "Of a column beside it: how many people the group's cohorts have, rounded down to a multiple of k.",
        "members",
        default_told="no such column",
    ),
    Key(
        "accept_risk",
        Reason("every reader may follow groups"),
        "Why every reader may follow groups over releases.",
        "accept_risk",
        missing="missing; say why every reader may follow groups over releases",
    ),
)

OF_LASTING = (
    Key(
        "cohort_size",
        Whole(2),
        "Of cohort: lasting, people a cohort, at least k; more where an attacker may know matches or plant people.",
        "cohort_size",
        default_told="k, and against.known_people more",
    ),
    Key(
        "intake",
        Whole(2),
        "Of cohort: lasting, newcomers enter together when so many wait, or when a row of one must leave.",
        "intake",
        default_told="200 k; with max_delay 0 at once, when there are cohort_size",
    ),
    Key(
        "intake_share",
        Number("a share of the people who have entered, at least 0 and below 1", least=0, below=1),
        "Of cohort: lasting, newcomers wait for each other until they are such a share of those who have entered, too.",
        "intake_share",
        default_told="0.05; 0 with another intake than the default, and with max_delay 0",
    ),
    Key(
        "max_outdated",
        Number("a share of a window's rows, at least 0 and below 1", least=0, below=1),
        "Of cohort: lasting, share of a window's rows outside the box of their person's values as of entry above"
        " which the run says that a renewal is due.",
        "max_outdated",
        default_told="0.02",
    ),
    Key(
        "split_by",
        Names(),
        "Of cohort: lasting, fields of single rows, such as a channel, whose values are published as they are: each"
        " value has releases of its own, of the same cohorts.",
        "split_by",
        default=(),
        written=Written.CHANGED,
    ),
    Key(
        "people",
        Text("file"),
        "Of cohort: lasting, a file beside the policy, of any kind that is an input, of people known from the start:"
        " one row each, with the individual, all quasi-identifiers and partition_by. They enter with the first"
        " release.",
        "people",
        default_told="people are known by their rows",
    ),
    Key(
        "against",
        Group(AGAINST, Against),
        "Of cohort: lasting, what one reader knows beside all attributes, against whom k people are wanted.",
        "against",
        default_told="nothing of anybody's activity",
    ),
    Key(
        "renew",
        Group(RENEW, Renew),
        "Of cohort: lasting, how a run with --renew begins a new epoch of the people whom the run before knows.",
        "renew",
        default_told="no run renews",
    ),
    Key(
        "publish_member",
        Group(_MEMBER, published_member, example="{name: member, accept_risk: analysts follow customers}"),
        "Of cohort: lasting, a column with one number a person, the same on all of its rows of the epoch. Every reader"
        " then links.",
        "publish_member",
        default_told="no such column",
    ),
    Key(
        "publish_group",
        Group(
            _GROUP, published_group, example="{name: group_id, accept_risk: trends of groups are asked for}"
        ),
        "Of cohort: lasting, a column with one number a set of cohorts, by which every reader follows a group's rows"
        " from release to release.",
        "publish_group",
        default_told="no such column",
    ),
)

CSV = (
    Key(
        "delimiter",
        Text("one sign, or tab"),
        "What separates cells.",
        "delimiter",
        default_told="that of , ; tab | which the header has most of",
    ),
    Key(
        "encoding",
        Text("such as cp1250, utf-16"),
        "Of the files.",
        "encoding",
        "utf-8",
        written=Written.CHANGED,
    ),
    Key(
        "decimal",
        Text(". or ,"),
        "What stands before a number's fraction.",
        "decimal",
        ".",
        written=Written.CHANGED,
    ),
    Key(
        "thousands",
        Text(", . space ' or _"),
        "What stands between groups of three digits; space: also a no-break space.",
        "thousands",
        default_told="nothing",
    ),
    Key(
        "nulls",
        Words('such as [NA, "-"]'),
        "Words that mean null, besides the empty cell.",
        "nulls",
        (),
        written=Written.CHANGED,
    ),
    Key(
        "quote",
        Text("one sign, or ''"),
        "What stands around a cell that holds delimiters or line ends; '': nothing does.",
        "quote",
        '"',
        written=Written.CHANGED,
    ),
    Key(
        "header",
        Text("numbered"),
        "numbered: columns without a name, or with one that is there already, are called by their number (column_4).",
        "header",
        default_told="such files are refused",
        written=Written.CHANGED,
    ),
)

HEAD = (
    Key(
        "version",
        Exactly(1, _VERSION),
        "Version of the policy's language.",
        "version",
        missing="missing; this version of kanonflow reads version: 1",
    ),
    Key(
        "name",
        Text("letters, digits, _ . -"),
        "Name of the policy, in keys and metrics.",
        "name",
        default_told="the file's",
    ),
    Key(
        "k",
        Whole(2),
        "How many individuals each row is hidden among.",
        "k",
        missing="missing; how many individuals must each row be hidden among? (5 is a good start)",
    ),
    *DURATIONS,
    Key(
        "partition_by",
        Names(),
        "Fields whose values are published as they are and part the feed: each part is released by itself.",
        "partition_by",
        default_told="one partition",
    ),
    Key(
        "max_window_rows",
        Whole(1),
        "A partition's window with more rows is released in several parts; at least 10 k.",
        "max_window_rows",
        default_told="200000, or 10 k if that is more",
    ),
    Key(
        "individual",
        Text("field name"),
        "The field that says whom a row belongs to; the same as its role.",
        "individual",
        default_told="each row is its own individual",
        written=Written.NEVER,
    ),
    Key(
        "protect",
        Choice(Protection),
        "Whom the promise is about: single rows, or all rows of an individual together.",
        "protect",
        default_told="individual where a field has that role, else row",
    ),
    Key(
        "others",
        Choice(Others),
        "What happens to fields of the input that are not named here.",
        "others",
        default=Others.REFUSE,
    ),
    Key(
        "cohort",
        Choice(Cohort),
        "Of protect: individual, with whom individuals are put together: afresh in each window, or once, in cohorts"
        " that last.",
        "cohort",
        default_told="lasting; window where there is no window",
    ),
    *OF_LASTING,
    Key(
        "csv",
        Group(CSV, csv_form),
        "How CSV files of the input are written; nulls and signs of numbers also go for JSON lines and workbooks.",
        "csv",
        default_told="UTF-8, decimal point, empty cells are null",
    ),
    Key(
        "max_rejected",
        Number("a share of the rows, from 0 to 1", least=0, most=1),
        "Share of the rows read that may be rejected because they do not fit; above it a run ends with exit code 3, and"
        " a stream raises an alert.",
        "max_rejected",
        default_told="0.05",
    ),
    Key(
        "assess",
        Group(ASSESS, AssessLimits),
        "What `kanonflow assess` lets a release give away beyond what people give who are not in it; above, it ends"
        " with 1.",
        "assess",
        default_told="singling_out 0.15, the others 0.05",
    ),
    Key(
        "metrics",
        Choice(MetricsAccess),
        "Who may read the metrics: they stay in restricted/, or what is safe of them is written beside the releases.",
        "metrics",
        default=MetricsAccess.RESTRICTED,
    ),
    Key(
        "solver",
        Group(SOLVER, SolverChoice, short="method", others="parameters"),
        "How windows are solved; a solver's name alone may stand in the place of the mapping. A solver's own parameters"
        " stand in it, too (docs/solvers.md).",
        "solver",
    ),
    Key(
        FOLDER_KEY,
        Text("folder"),
        "Folder of the hierarchies' files, relative to the policy's.",
        FOLDER_KEY,
        default_told="the policy's own",
        written=Written.NEVER,
    ),
    Key(
        "fields",
        Given("field name: role, or a mapping, see below", {"type": "object"}),
        "What each field of the input is for; a field that is missing is refused or dropped (others).",
        "fields",
        written=Written.NEVER,
    ),
)
