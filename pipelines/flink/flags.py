"""Flags that Flink's job server knows and Beam's Python side does not, and the defaults of a stream on Flink."""

from __future__ import annotations

from collections.abc import Sequence

FLINK_FLAGS = frozenset(
    {
        "--auto_watermark_interval",
        "--checkpoint_timeout_millis",
        "--checkpointing_interval",
        "--disable_metrics",
        "--enable_stable_input_drain",
        "--externalized_checkpoints_enabled",
        "--fail_on_checkpointing_errors",
        "--faster_copy",
        "--finish_bundle_before_checkpointing",
        "--job_check_interval_in_secs",
        "--latency_tracking_interval",
        "--max_bundle_size",
        "--max_bundle_time_mills",
        "--min_pause_between_checkpoints",
        "--object_reuse",
        "--operator_chaining",
        "--report_checkpoint_duration",
        "--retain_externalized_checkpoints_on_cancellation",
        "--savepoint_path",
        "--state_backend",
        "--state_backend_factory",
        "--state_backend_storage_path",
    }
)
"""Left out are ``--checkpointing_mode``, ``--num_concurrent_checkpoints`` and unaligned checkpoints, for releases are
committed with the one checkpoint that holds them; ``--shutdown_sources_after_idle_ms``, which would end the step that
a feed is read by; ``--allow_non_restored_state``, with which Flink drops open windows and releases on their way when a
savepoint does not fit the job, and says nothing; and retries, which are for the cluster to say."""

CHECKPOINTING_MS = 10_000
CHECKPOINT_TIMEOUT_MS = 600_000
BUNDLE_MS = 500
"""What a bundle made goes on when the bundle ends: with Flink's own default up to a second after it could have. Each
task looks twice in that time whether its bundle is due, which at 200 ms cost more than most of what the tasks did
(docs/decisions/046)."""


def is_flink(runner: str) -> bool:
    """Whether a runner's name means Flink."""
    return runner.rsplit(".", 1)[-1].lower() == "flinkrunner"


def flag_value(flags: Sequence[str], name: str) -> str | None:
    """The last value of ``--name=value`` or ``--name value``; None when the flag is not there."""
    value = None
    for index, flag in enumerate(flags):
        if flag == name:
            value = flags[index + 1] if index + 1 < len(flags) else ""
        elif flag.startswith(f"{name}="):
            value = flag.split("=", 1)[1]
    return value


def split_flink_flags(flags: Sequence[str]) -> tuple[list[str], list[str]]:
    """The flags of the job server, and the others."""
    own: list[str] = []
    others: list[str] = []
    waiting = False
    for flag in flags:
        if waiting and not flag.startswith("--"):
            own.append(flag)
        elif flag.split("=", 1)[0] in FLINK_FLAGS:
            own.append(flag)
            waiting = "=" not in flag
            continue
        else:
            others.append(flag)
        waiting = False
    return own, others


def with_stream_defaults(flags: Sequence[str]) -> tuple[str, ...]:
    """The flags of a stream on Flink, completed.

    A cluster in this process when none is named, with this process as the worker. A checkpoint every ten seconds, so
    that a release is visible soon after its window: it appears with the checkpoint that holds it. Bundles end before a
    checkpoint begins, and what a checkpoint would still have to confirm goes out when a job is drained.
    """
    defaults = {
        "--flink_master": "[local]",
        "--checkpointing_interval": str(CHECKPOINTING_MS),
        "--checkpoint_timeout_millis": str(CHECKPOINT_TIMEOUT_MS),
        "--max_bundle_time_mills": str(BUNDLE_MS),
        "--parallelism": "1",
    }
    if flag_value(flags, "--flink_master") in (None, "[local]", "[auto]"):
        defaults["--environment_type"] = "LOOPBACK"
    added = [f"{name}={value}" for name, value in defaults.items() if flag_value(flags, name) is None]
    switches = (
        "--streaming",
        "--finish_bundle_before_checkpointing",
        "--enable_stable_input_drain",
        "--externalized_checkpoints_enabled",
        "--retain_externalized_checkpoints_on_cancellation",
    )
    return (*flags, *added, *(switch for switch in switches if switch not in flags))
