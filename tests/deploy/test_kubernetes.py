"""The manifest for Kubernetes and the image of the workers say what they promise; no cluster has tried them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kanonflow.pipelines.flink.job_server import FLINK_VERSION

FOLDER = Path(__file__).parents[2] / "deploy" / "flink"


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    """The manifest's documents by their kind."""
    text = (FOLDER / "kanonflow-stream.yaml").read_text()
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def test_only_what_is_named_reaches_a_pod(documents: dict[str, Any]) -> None:
    """Flink's own pods everything, submitters REST, the metrics system its port; nobody the pool of workers."""
    name = documents["FlinkDeployment"]["metadata"]["name"]
    policy = documents["NetworkPolicy"]["spec"]
    assert policy["podSelector"]["matchLabels"] == {"app": name}  # the label that the operator gives its pods
    assert policy["policyTypes"] == ["Ingress"]
    for rule in policy["ingress"]:
        (source,) = rule["from"]
        own = source.get("podSelector", {}).get("matchLabels") == {"app": name}
        assert own or {port["port"] for port in rule["ports"]} <= {8081, 9249}


def test_the_pool_is_ours_and_on_loopback(documents: dict[str, Any]) -> None:
    """Neither does the image start Beam's own pool, nor is a port of the workers declared."""
    image = (FOLDER / "Dockerfile.worker").read_text()
    (start,) = (line for line in image.splitlines() if line.startswith("ENTRYPOINT"))
    assert "umask 077; exec python -m kanonflow.pipelines.runs.worker_pool --service_port=50000" in start
    containers = documents["FlinkDeployment"]["spec"]["taskManager"]["podTemplate"]["spec"]["containers"]
    (workers,) = (each for each in containers if each["name"] == "python-workers")
    assert not {"args", "command", "ports"} & set(workers)


def test_the_cluster_is_of_the_version_that_jobs_are_built_for(documents: dict[str, Any]) -> None:
    """And the volume with checkpoints is for Flink's user alone."""
    spec = documents["FlinkDeployment"]["spec"]
    assert spec["image"] == f"flink:{FLINK_VERSION}"
    assert spec["flinkVersion"] == f"v{FLINK_VERSION.replace('.', '_')}"
    (first,) = spec["podTemplate"]["spec"]["initContainers"]
    assert "chmod 0700 /state" in first["command"][-1]
