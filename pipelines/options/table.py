"""The one table of commands and their options: the parser, the refusals and docs/commands.md are made of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

from kanonflow.pipelines.options.values import (
    delimiter,
    epoch,
    instant,
    named,
    natural,
    place,
    place_or_topic,
    positive,
    several,
)
from kanonflow.schemas.policy_fields import ClosenessDistance, DiversityKind
from kanonflow.schemas.release_format import RELEASE_FORMATS, ReleaseFormat
from kanonflow.schemas.text_inputs import INPUT_FORMATS

DEFAULT_RUNNER = "FnApiRunner"
STREAM_RUNNER = "FlinkRunner"
INDIVIDUAL_TYPES = ("string", "long", "bytes")
"""Kinds of values of an individual, as a policy's ``as`` calls them; ``long`` are whole numbers of any width."""
EXIT_CODES = (
    "exit codes: 0 done, 1 the audit failed, 2 bad arguments, policy or input, 3 the run failed or lost its input, 130"
    " Ctrl-C (a stream is left to its cluster), 141 nobody reads what is printed"
)
RENAMED = {"--certificates": "--matching-records"}
"""Flags that had another name before 0.1.0: still read, with a note."""


class Command(NamedTuple):
    """words: what it does, in a line. more: what its help says above the options. beam: other flags are Beam's."""

    words: str
    more: str | None = None
    beam: bool = False


class Option(NamedTuple):
    """name: a flag, or the destination of a place. commands: which take it, with blanks between them. how: of argparse.

    with_: another option, without which it means nothing. why: what is said then, behind "goes with ...". one_of: a
    group of which at most one may be there. flag: of a place, what may stand before it, so that policies and releases
    are called the same in every command. no_stream: why ``stream`` does not take it, to whom it would seem Beam's.
    """

    name: str
    commands: str
    words: str | None
    how: Mapping[str, Any] = {}
    with_: str = ""
    why: str = ""
    one_of: str = ""
    no_stream: str = ""
    flag: str = ""

    @property
    def destination(self) -> str:
        """Its name among the arguments."""
        return str(self.how.get("dest", self.name.lstrip("-").replace("-", "_")))


COMMANDS = {
    "demo": Command(
        "generate a transaction feed and anonymize it",
        "Generates a feed of card and bank transactions and anonymizes it. Flags that are not listed go to Beam.",
        beam=True,
    ),
    "anonymize": Command(
        "release an anonymized feed",
        "Reads a feed, releases it k-anonymously as Avro or Parquet. Flags that are not listed go to Beam.",
        beam=True,
    ),
    "stream": Command(
        "release an anonymized feed while it goes on",
        "Reads a feed that goes on and releases each window when it has ended. Runs on Flink, in this process or on a"
        " cluster, and on Dataflow. Flags that are not listed go to Beam.",
        beam=True,
    ),
    "stop": Command(
        "end a running stream in order",
        "Ends the feed of a running stream with what it holds now. Every window is then closed, what cannot be released"
        " is rejected, nothing is left waiting. Returns when all of it is written.",
    ),
    "forget": Command(
        "delete what the cohorts of a run hold of people",
        "Deletes the frozen values of people from the cohorts of a run. Their places stay, and so does what the boxes"
        " of their cohorts tell: docs/cohorts.md. Prints how many were found, never a name.",
    ),
    "rejected": Command(
        "say which rows a run rejected, and write them out to be mended",
        "Counts the rejected rows of a run by reason and field, and says where the first of each stand. Prints no"
        " value. --to writes the rows themselves as they came, for their owner only.",
    ),
    "verify": Command("audit a release against its input"),
    "assess": Command(
        "say what releases give away: singling out, linking, inferring, by attacks on them",
        "Attacks the releases in OUT as readers would who know everybody's attributes, or some of what people did, and"
        " tells what that finds of people beyond what it finds of people who are not in them. Exits with 1 where a"
        " figure is above the limit of the policy (assess:). Writes OUT/restricted/assessment.html and .json"
        " (docs/assess.md).",
    ),
    "export": Command(
        "write releases as one Parquet data set or CSV file, or to an Iceberg table; tell OpenLineage of them",
        "Writes the releases that are in DIR now with one value a cell, for polars, DuckDB, pandas, Spark and others"
        " (docs/using-releases.md). Reads nothing but DIR/release, and replaces nothing. Tables of Iceberg and events"
        " of OpenLineage have each release once, however often the command runs; they need their extras: pip install"
        " 'kanonflow[iceberg]', 'kanonflow[openlineage]'.",
    ),
    "impute": Command(
        "write tables of single values that a release may have come from, for models",
        "Writes M tables in which each row has one value of its box for every quasi-identifier, drawn by a model"
        " (docs/models.md). These rows are invented: they are no people and no release, and nothing may be joined to"
        " them."
        " Reads nothing but DIR/release, and replaces nothing.",
    ),
    "report": Command(
        "write a run's pages: a report for inside, a certificate for whoever has the releases",
        "Writes DIR/restricted/report.html, with exact numbers, and DIR/certificate.html, made of what is public and"
        " the verdict of the last verify alone. One file each, without scripts, readable offline (docs/report.md)."
        " Needs the extra: pip install 'kanonflow[report]'.",
    ),
    "policy": Command("draft or check a policy; its JSON Schema"),
    "policy draft": Command("print a policy with every field of a file, and what the data say of each"),
    "policy check": Command("report all mistakes of a policy at once"),
    "policy schema": Command("print the JSON Schema of policies, with which editors complete and check them"),
    "compare": Command(
        "show what k, a method, or diversity of a sensitive field would cost",
        "Anonymizes the files under every combination of the settings and writes nothing but a table of losses. Lists"
        " are separated by commas.",
    ),
    "explain": Command(
        "say what a feed is like under a policy, what others would lose on it, and what to change",
        "Counts people a window, people who are alone, fields that follow from others and payload that tells too much;"
        " plays stretches of the feed under another k, window, max_delay, protection, and without each field; and says"
        " in at most five sentences what to do. Nothing is released.",
    ),
    "plan": Command(
        "say how partitions are cut into shards, so that many workers share one",
        "Makes a plan from people who are known from the start (people:, or --people), with protect: row from the rows"
        " of --input: which of them share a shard, so that few who are alike are parted. With --continue it splits"
        " shards of a run that has ended. Tries it on a sample and says what it costs. Runs go by it with --plan"
        " (docs/scaling.md).",
    ),
}
"""In the order of the help."""

_RUNS = "demo anonymize stream"
_OVER_INPUT = "anonymize verify compare explain assess plan"
_SWITCH = {"action": "store_true"}
_FILE = {"metavar": "FILE"}
_DIR = {"metavar": "DIR", "type": place_or_topic}
_OUT = {"metavar": "DIR", "type": place}
_MANY = {"action": "append", "default": []}
_NEEDED = {"required": True}
_WAITS = "which keeps what waits in its state; stop it with a savepoint and go on from that"

OPTIONS = (
    # places
    Option(
        "output", "stop", "the --output of the stream; its --restricted when releases are in a topic", _DIR
    ),
    Option(
        "output", "forget rejected", "the --output of the run, or its --restricted", _DIR, flag="--release"
    ),
    Option("directories", "verify", "as --release", {"nargs": "*", "metavar": "OUT", "type": place_or_topic}),
    Option(
        "directories",
        "export impute",
        "the --output of a run, finished or not; several of one policy that continue each other",
        {"nargs": "+", **_DIR},
        flag="--release",
    ),
    Option(
        "directories",
        "assess",
        "the --output of a run that is over; several that continue each other, with the input of all",
        {"nargs": "+", "metavar": "OUT"},
        flag="--release",
    ),
    Option(
        "directory",
        "report",
        "the --output of a run, finished or not, or of a stream into a topic its --restricted: the directory that holds"
        " restricted/, and never restricted/ itself",
        _DIR,
        flag="--release",
    ),
    Option("policy", "policy-check", "policy (YAML)", {"metavar": "POLICY"}, flag="--policy"),
    # policy and input
    Option("--policy", f"{_OVER_INPUT} stream", "policy (YAML)", _FILE | _NEEDED),
    Option("--policy", "report", "the run's policy, for settings that a stream does not keep", _FILE),
    Option(
        "--policy",
        "rejected",
        "the run's policy, where its csv says how the files are written: --to writes the rows like them",
        _FILE,
    ),
    Option(
        "--input",
        _OVER_INPUT,
        "files: CSV, JSON lines, Avro, Parquet, .xlsx; -: standard input; may be given several times",
        {"metavar": "GLOB", "action": "append"} | _NEEDED,
    ),
    Option("--input", "policy-draft", None, {"action": "append"} | _FILE | _NEEDED),
    Option(
        "--individual",
        "policy-draft",
        "the field that says whose a row is, where you know it (default: the data are asked)",
        {"metavar": "FIELD"},
    ),
    Option(
        "--input",
        "policy-check",
        "also check that it fits these files",
        {"metavar": "GLOB", "action": "append"},
    ),
    Option(
        "--input",
        "report",
        "the run's input: 200 random range queries are asked of it and of the releases",
        {"metavar": "GLOB"} | _MANY,
        with_="--policy",
        why="queries are asked of the input as the policy reads it",
    ),
    Option(
        "--input",
        "rejected",
        "the run's input, to look up rows there that were rejected once they were in a window",
        {"metavar": "GLOB"} | _MANY,
    ),
    Option(
        "--controls",
        "assess",
        "files of people of the same kind who are not in the release, 200 or more; without them half of the people"
        " are released once more, and the others are the controls",
        {"metavar": "GLOB"} | _MANY,
    ),
    Option(
        "--population",
        "assess",
        "how many people there are of whom the input's are a part: how many would be unique among them is estimated",
        {"type": positive(int)},
    ),
    Option(
        "--source",
        "stream",
        "a directory that files arrive in (an empty file _END ends the feed), or"
        " kafka://host:port/topic?format=avro|registry|json&... (docs/kafka.md)",
        {"metavar": "DIR|kafka://...", "type": place_or_topic} | _NEEDED,
    ),
    Option(
        "--schema",
        "stream",
        "a file with the columns of the feed, for a directory that is empty still",
        _FILE,
    ),
    Option(
        "--delimiter",
        f"{_OVER_INPUT} stream report policy-draft policy-check",
        "of CSV files (default: the policy's, else that of , ; tab | found in the header)",
        {"type": delimiter},
    ),
    Option(
        "--input-format",
        f"{_OVER_INPUT} report policy-draft policy-check",
        "what the files hold (default: what their names say)",
        {"choices": INPUT_FORMATS},
    ),
    # where it goes
    Option("--output", "anonymize", "a directory of its own for each run", _OUT | _NEEDED),
    Option("--output", "demo", "default: %(default)s", {"default": "demo-out"} | _OUT),
    Option(
        "--output",
        "stream",
        "where releases go, one run each",
        {"metavar": "DIR|kafka://...", "type": place_or_topic} | _NEEDED,
    ),
    Option(
        "--restricted",
        "stream",
        "directory for metrics and rejected rows; needed when --output is a topic",
        _DIR,
    ),
    Option("--restricted", "verify", "the --restricted of a run whose releases are in a topic", _DIR),
    Option(
        "--release-format",
        _RUNS,
        "of the files of releases, one for a whole run; everything else stays Avro (default: %(default)s)",
        {"choices": RELEASE_FORMATS, "default": str(ReleaseFormat.AVRO)},
    ),
    Option(
        "--matching-records",
        _RUNS,
        "also write a matching record of each release to restricted/matching_records, for verify; it names the record"
        " behind every row",
        _SWITCH,
    ),
    Option(
        "--release",
        "verify",
        "the --output of the run; --input may be a topic too. Of several runs that continue each other: all of them,"
        " which are judged as a whole over the input of all",
        {"nargs": "+", "default": [], "metavar": "DIR|kafka://...", "type": place_or_topic},
    ),
    # the feed of the demo
    Option("--rows", "demo", "rows (default: %(default)s)", {"type": positive(int), "default": 20_000}),
    Option("--days", "demo", "days (default: %(default)s)", {"type": positive(int), "default": 14}),
    Option("--seed", "demo", "seed of the feed (default: %(default)s)", {"type": natural, "default": 1}),
    Option(
        "--format",
        "demo",
        "of the feed (default: %(default)s)",
        {"choices": INPUT_FORMATS[:3], "default": "csv"},
    ),
    Option(
        "--seed",
        "assess",
        "of all that is drawn by chance (default: %(default)s)",
        {"type": natural, "default": 1},
    ),
    Option("--only-feed", "demo", "write the feed and stop", _SWITCH),
    # how it runs
    Option("--runner", "demo anonymize", "Beam runner (default: %(default)s)", {"default": DEFAULT_RUNNER}),
    Option("--runner", "stream", "Beam runner (default: %(default)s)", {"default": STREAM_RUNNER}),
    Option("--resume", _RUNS, "continue the run that began in --output", _SWITCH),
    Option("--evaluations", _RUNS, "search budget: evaluations a row", {"type": positive(float)}),
    Option("--evaluations", "compare", "search budget: evaluations a row", {"type": float}),
    Option(
        "--deadline-ms",
        _RUNS,
        "stop searching a window after so long; what each release is published from is kept, for a resumed run cannot"
        " find it again",
        {"type": positive(int)},
    ),
    Option("--threads", _RUNS, "solver threads (default: cores)", {"type": positive(int)}),
    Option("--threads", "compare plan", "solver threads (default: cores)", {"type": int}),
    Option(
        "--seed",
        "anonymize",
        "seed of the search, instead of one derived from the secret; never of what is published",
        {"dest": "search_seed", "type": natural},
    ),
    Option(
        "--second-release",
        "anonymize",
        "release rows that --output has released already once more, under another policy or secret, into OUT/second-N;"
        " says what that costs",
        _SWITCH,
        no_stream="whose windows would go out twice as long as it runs; a new policy or secret begins with the first"
        " window that was not released",
    ),
    # runs that continue each other
    Option(
        "--continue",
        "anonymize stream",
        "be the next run of the chain of the one whose --output (or --restricted) DIR was; with cohort: lasting it"
        " begins with its cohorts, in its epoch; without it an epoch begins",
        {"dest": "continues"} | _DIR,
    ),
    Option(
        "--epoch",
        "anonymize stream",
        "with cohort: lasting: the number of the epoch that begins, 16 hex digits (default: one is drawn), so that a"
        " stream and a run over files write equal files; never one that other releases have already",
        {"type": epoch, "metavar": "HEX"},
    ),
    Option(
        "--people",
        "plan",
        "a file of people as the policy's people: names one (default: that one)",
        _FILE,
    ),
    Option(
        "--shards",
        "plan",
        "of each partition; with --continue of each shard that is split (default: 2)",
        {"type": positive(int), "metavar": "N"},
    ),
    Option(
        "--continue",
        "plan",
        "the output of a run that has ended: the plan splits shards of it, for the run that continues it",
        {"dest": "continues"} | _DIR,
    ),
    Option(
        "--split",
        "plan",
        "a shard to split: its key (a folder of restricted/cohorts), the beginning of one, or largest; again for"
        " another; of a run without a plan: leave it out, and the whole is",
        {"metavar": "SHARD", "action": "append"},
        with_="--continue",
    ),
    Option("--output", "plan", "the file to write", _FILE | _NEEDED),
    Option("--accept-small", "plan", "let shards have fewer than 250 people, or rows a window", _SWITCH),
    Option(
        "--plan",
        "anonymize stream",
        "a plan that cuts partitions into shards, from the beginning of an epoch, or of a chain of rows, or one that"
        " splits shards of the run that this one continues (docs/scaling.md); where a run goes on, its plan does",
        _FILE,
    ),
    Option(
        "--individual-type",
        "anonymize stream",
        "once: what kind of value the individual was in the run before, where an earlier build did not write it down",
        {"choices": INDIVIDUAL_TYPES},
        with_="--continue",
    ),
    Option(
        "--renew",
        "anonymize stream",
        "end the epoch of the run before, and begin another with the people whom it knows, as the policy has it"
        " (renew:); it says first what readers of both epochs are left with (docs/cohorts.md)",
        _SWITCH,
        with_="--continue",
    ),
    Option(
        "--people-changed",
        "anonymize stream",
        "go on though hardly anybody of the input is known, or is known in another spelling",
        _SWITCH,
        with_="--continue",
    ),
    Option(
        "--carry",
        "anonymize",
        "with cohort: lasting: leave what waits at the end to the run that continues this one, instead of releasing it"
        " with whoever is there, or rejecting it",
        _SWITCH,
        no_stream=_WAITS,
    ),
    Option(
        "--until",
        "anonymize",
        "where the run ends, as 2024-03-02 or 2024-03-02T06:00+01:00 (UTC unless it says so) (default: the end of the"
        " window of the latest row)",
        {"type": instant, "metavar": "TIME"},
        with_="--carry",
        why="without it all rows of the input leave, and none waits for an end",
        no_stream=_WAITS,
    ),
    # streams
    Option(
        "--detach",
        "stream",
        "submit the job to its cluster, and do not wait for its end",
        _SWITCH,
    ),
    Option(
        "--unmeasured",
        "stream",
        "run although no check of the payload is in DIR/restricted/check.json (policy check --input SAMPLE --for DIR):"
        " the first windows are measured while they are released, and it is said",
        _SWITCH,
    ),
    Option(
        "--end-on-rejected",
        "stream",
        "end with exit code 3 when of the last 10,000 rows that a worker read more than the policy's max_rejected do"
        " not fit, instead of raising an alert only",
        _SWITCH,
    ),
    Option(
        "--rewind",
        "stream",
        "go on from a state that is older than what is published. Each release that is made again is compared with what"
        " is there, and a partition is parked at the first difference",
        _SWITCH,
        with_="--resume",
        why="it is for a stream that goes on from an older state",
    ),
    Option(
        "--timeout",
        "stop",
        "give up waiting after so long (default: never)",
        {"type": positive(float), "metavar": "SECONDS"},
    ),
    # checks and results
    Option(
        "--strict",
        "verify",
        "an audit that passed in part ends with exit code 1, as one that failed",
        _SWITCH,
    ),
    Option(
        "--publish-assessment",
        "assess",
        "tell the figures that have a limit beside the releases and on the certificate, in hundredths and with their"
        " intervals",
        _SWITCH,
    ),
    Option(
        "--strict",
        "assess",
        "a limit for which there is no figure ends with exit code 1, as one that is passed",
        _SWITCH,
    ),
    Option(
        "--waiting",
        "verify",
        "the run goes on: rows whose time is not over may be in no release yet",
        _SWITCH,
    ),
    Option(
        "--allow-empty",
        "verify",
        "a run that released nothing passes too, as of a night without rows",
        _SWITCH,
    ),
    Option(
        "--matching-records",
        "verify",
        "also check the matching records of the run; with the secret, that each matching is the one it draws. With"
        " cohort: lasting the secret also says who of the input stands in which cohort; a secret that the run drew"
        " itself is found",
        _SWITCH,
    ),
    Option(
        "--known",
        "verify",
        "also tell what hides the others when somebody knows C matches (default: 0); not with --waiting",
        {"type": int, "default": 0, "metavar": "C"},
    ),
    Option(
        "--individual-file",
        "forget",
        "whom: values of the individual's field, one a line",
        _FILE | _NEEDED,
    ),
    Option(
        "--to",
        "rejected",
        "write the rows as they came: FILE.csv with the header of their file (several headers: FILE-1.csv, FILE-2.csv,"
        " ...), or FILE.jsonl for JSON messages",
        _FILE,
    ),
    Option(
        "--to",
        "export",
        "parquet: a folder, with a folder for each day; csv: one file; iceberg: a table, a snapshot for each release"
        " that it does not have yet; openlineage: an event for each release that was not told of yet",
        {"choices": ("parquet", "csv", "iceberg", "openlineage")} | _NEEDED,
    ),
    Option(
        "--to",
        "impute",
        "parquet or csv: one file a table (default: %(default)s)",
        {"choices": ("parquet", "csv"), "default": "parquet"},
    ),
    Option(
        "-m",
        "impute",
        "how many tables (default: %(default)s)",
        {"type": positive(int), "default": 5, "metavar": "M"},
    ),
    Option(
        "--outcome",
        "impute",
        "field that is published as it is, and that a model is about: values are weighed by it, lest slopes be drawn"
        " towards 0",
        {"metavar": "FIELD"},
    ),
    Option(
        "--seed",
        "impute",
        "the same seed, the same tables (default: %(default)s)",
        {"type": natural, "default": 1, "metavar": "N"},
    ),
    Option(
        "--hierarchy",
        "export impute",
        "the file of a hierarchy: impute makes leaves of its labels, and --by counts them",
        {"metavar": "FIELD=FILE", "dest": "hierarchies", "type": named} | _MANY,
    ),
    Option(
        "--flat",
        "export",
        "a range as columns _min, _max, _mid and _nulls, as one text such as [20, 30], or as its middle alone; shares:"
        " each row cut into the parts of --by, with the share of it in each (default: %(default)s)",
        {"choices": ("columns", "label", "mid", "shares"), "default": "columns"},
    ),
    Option(
        "--by",
        "export",
        "with --flat shares, the parts of a field: each, a period such as 5y, or edges or categories with commas"
        " between them; as estimate takes them",
        {"metavar": "FIELD=PARTS", "dest": "by", "type": named} | _MANY,
    ),
    Option(
        "--neutralize-formulas",
        "export impute",
        "in CSV, put ' before text that a spreadsheet would run (=, +, -, @, tab); numbers stay as they are",
        _SWITCH,
    ),
    Option(
        "--output",
        "export",
        "default: export.parquet, export.csv, export.iceberg (SQLite and files, without --catalog) or"
        " export.openlineage (what was told) in the first DIR",
        {"metavar": "PATH"},
    ),
    Option(
        "--catalog",
        "export",
        "with --to iceberg, a catalog of pyiceberg's own configuration (~/.pyiceberg.yaml, PYICEBERG_CATALOG__...)",
        {"metavar": "NAME"},
    ),
    Option(
        "--table",
        "export",
        "with --to iceberg, which table, made if need be (default: kanonflow.releases)",
        {"metavar": "NAMESPACE.NAME"},
    ),
    Option(
        "--reads",
        "export",
        "with --to openlineage, the data set that the input is (default: POLICY.feed)",
        {"metavar": "NAMESPACE=NAME", "dest": "reads", "type": named} | _MANY,
    ),
    Option(
        "--writes",
        "export",
        "with --to openlineage, the data set that the releases are (default: POLICY.releases)",
        {"metavar": "NAMESPACE=NAME", "dest": "writes", "type": named} | _MANY,
    ),
    Option("--output", "impute", "default: imputed in the first DIR", _DIR),
    Option(
        "--fit-only",
        "policy-check",
        "say whether the files fit, and measure nothing of what their payload and people tell",
        _SWITCH,
    ),
    Option(
        "--for",
        "policy-check",
        "keep what was measured in DIR/restricted/check.json, for the stream whose --output (or --restricted) that is,"
        " or for KAnonymize(verdict=...)",
        {"dest": "stream_output"} | _DIR,
        with_="--input",
        why="it keeps what was measured",
    ),
    Option("--quick", "explain", "count only, and solve nothing", _SWITCH),
    Option(
        "--for",
        "explain",
        "quasi-identifiers that users count by, between commas: no sentence says to leave them out, and it is tried"
        " what to leave out and what to weigh for them",
        {"dest": "wanted", "metavar": "FIELDS"},
    ),
    Option(
        "--html",
        "explain",
        "write a page with drawings and all figures, too (pip install 'kanonflow[report]')",
        _FILE,
    ),
    # what is compared
    Option(
        "--methods",
        "compare",
        "solver methods, by the names in docs/solvers.md (default: the policy's)",
        {"type": several(str), "default": []},
    ),
    Option(
        "--k",
        "compare",
        "values of k (default: the policy's)",
        {"type": several(int), "default": [], "dest": "ks"},
    ),
    Option("--field", "compare", "sensitive field that --l or --t is for"),
    Option(
        "--l",
        "compare",
        "values of l; 1 is no rule",
        {"type": several(float), "default": [], "dest": "ls"},
        one_of="limits",
    ),
    Option(
        "--t",
        "compare",
        "values of t; 1 is no rule",
        {"type": several(float), "default": [], "dest": "ts"},
        one_of="limits",
    ),
    Option(
        "--kind",
        "compare",
        "of l (default: the policy's, or frequency)",
        {"choices": [str(kind) for kind in DiversityKind]},
    ),
    Option(
        "--distance",
        "compare",
        "of t (default: the policy's, or equal)",
        {"choices": [str(distance) for distance in ClosenessDistance]},
    ),
    Option(
        "--suppression",
        "compare",
        "shares of a window's rows that solvers of levels may reject (default: the policy's)",
        {"type": several(float), "default": [], "dest": "suppressions"},
    ),
    Option(
        "--class-field",
        "compare",
        "payload field with few values: how well classes, and a model that learns from the release, tell it",
    ),
    Option(
        "--rows",
        "compare",
        "only a stretch of whole windows, of about N rows",
        {"type": int, "metavar": "N"},
    ),
    Option(
        "--plot",
        "compare",
        "draw loss against l or t (or suppression, or k): .svg, or .html (pip install 'kanonflow[report]')",
        _FILE,
    ),
    # the secret
    Option(
        "--secret-file",
        f"{_RUNS} verify forget",
        "file with at least 32 random bytes",
        _FILE,
        one_of="secret",
    ),
    Option(
        "--secret-env",
        f"{_RUNS} verify forget",
        "environment variable that holds the secret",
        {"metavar": "NAME"},
        one_of="secret",
    ),
    Option(
        "--secret-manager",
        f"{_RUNS} verify forget",
        "projects/PROJECT/secrets/SECRET/versions/NUMBER in Google Cloud's Secret Manager",
        {"metavar": "VERSION"},
        one_of="secret",
    ),
    Option(
        "--previous-secret",
        f"{_RUNS} verify forget",
        "with --resume: a secret that the run used before this one (file:PATH, env:NAME, manager:VERSION)",
        {"metavar": "KIND:NAME", "dest": "previous_secrets"} | _MANY,
    ),
    # what is printed
    Option("--quiet", _RUNS, "no progress display and no table", _SWITCH),
    Option("--quiet", "stop", "no table", _SWITCH),
    Option(
        "--json",
        f"{_RUNS} stop forget rejected verify export impute policy-check compare explain assess plan",
        "print what the table says as JSON",
        _SWITCH,
    ),
)


def options_of(command: str) -> tuple[Option, ...]:
    """What a command takes, in the table's order."""
    name = command.replace(" ", "-")
    return tuple(option for option in OPTIONS if name in option.commands.split())


def command_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="kanonflow", description="Continuous k-anonymization of record feeds.", epilog=EXIT_CODES
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('kanonflow')}")
    below = {"": parser.add_subparsers(dest="command", required=True, metavar="COMMAND")}
    for name, command in COMMANDS.items():
        above, _, own = name.rpartition(" ")
        own_parser = below[above].add_parser(
            own, allow_abbrev=False, help=command.words, description=command.more, epilog=EXIT_CODES
        )
        if any(other.startswith(f"{name} ") for other in COMMANDS):
            below[name] = own_parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        groups: dict[str, Any] = {"": own_parser}
        for option in options_of(name):
            if option.one_of not in groups:
                groups[option.one_of] = own_parser.add_mutually_exclusive_group()
            goes_with = f"with {option.with_}: " if option.with_ else ""
            words = None if option.words is None else goes_with + option.words + _or_flag(option)
            groups[option.one_of].add_argument(option.name, help=words, **option.how)
    return parser


def _or_flag(option: Option) -> str:
    return f"; {option.flag} may stand before it" if option.flag else ""


def without_flags_of_places(words: Sequence[str]) -> list[str]:
    """A command line with places alone: ``verify --release DIR`` and ``report DIR`` are one spelling then."""
    name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else "".join(words[:1])
    flags = {option.flag for option in options_of(name) if option.flag} if name in COMMANDS else set()
    split = [word.partition("=") for word in words]
    return [
        value if equals and flag in flags else word
        for word, (flag, equals, value) in zip(words, split, strict=True)
        if word not in flags
    ]


def asked(arguments: argparse.Namespace) -> str:
    """The name of the command in the table."""
    action = getattr(arguments, "action", None)
    return arguments.command if action is None else f"{arguments.command} {action}"


def refusals(arguments: argparse.Namespace, rest: list[str]) -> Iterator[str]:
    """What the table refuses of a command line that was parsed: an option without the one that it goes with, and one
    that a stream does not take. rest: flags that are not the command's."""
    options = options_of(asked(arguments))
    there = {
        option.name for option in options if getattr(arguments, option.destination) not in (None, False, [])
    }
    for option in options:
        if option.name in there and option.with_ and option.with_ not in there:
            yield f"{option.name} goes with {option.with_}" + (f": {option.why}" if option.why else "")
    if arguments.command == "stream":
        flags = {flag.split("=", 1)[0] for flag in rest}
        for option in OPTIONS:
            if option.no_stream and option.name in flags:
                yield f"{option.name}: not for a stream, {option.no_stream}"


def option_tables() -> str:
    """What each command takes, in Markdown."""
    return "\n".join(_section(name, command) for name, command in COMMANDS.items())


def _section(name: str, command: Command) -> str:
    options = options_of(name)
    if not options and any(other.startswith(f"{name} ") for other in COMMANDS):
        return ""
    rows = [
        f"| `{' '.join(filter(None, (option.name, _value(option))))}` | {_told(option)} |"
        for option in options
    ]
    head = f"## {name}\n\n{command.more or command.words[0].upper() + command.words[1:] + '.'}\n"
    return "\n".join([head, *(["| option | what it says |", "|---|---|", *rows, ""] if rows else [])])


def _value(option: Option) -> str:
    if option.how.get("action") == "store_true" or not option.name.startswith("-"):
        return ""
    choices = option.how.get("choices")
    named = "|".join(map(str, choices)) if choices else option.how.get("metavar", option.destination.upper())
    return str(named).replace("|", "\\|")


def _told(option: Option) -> str:
    words = (option.words or "").replace("%(default)s", str(option.how.get("default"))).replace("|", "\\|")
    notes = ["needed"] if option.how.get("required") else []
    notes += [f"with `{option.with_}`"] if option.with_ else []
    words += _or_flag(option).replace(option.flag, f"`{option.flag}`") if option.flag else ""
    return ": ".join(filter(None, (", ".join(notes), words)))
