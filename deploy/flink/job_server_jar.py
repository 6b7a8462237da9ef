"""Clusters here are started from the jar that jobs are submitted with (pipelines/flink/job_server.py)."""

from kanonflow.pipelines.flink.job_server import FLINK_VERSION, MissingToolError, job_server_jar

__all__ = ["FLINK_VERSION", "MissingToolError", "job_server_jar"]
