"""What a wheel is made of and runs with, as CycloneDX 1.6 in JSON: the file below ``.dist-info/sboms`` (PEP 770).

From ``locks/run.lock`` alone, so that two builds of one commit hold the same bytes: no clock, no environment, no
random number.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

_PINNED = re.compile(
    r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;]+)(?:\s*;[^\\]*)?((?:\s*\\\n\s*--hash=sha256:[0-9a-f]{64})*)", re.M
)


class Locked(NamedTuple):
    """A package of a lock: its name as the index has it, version, and SHA-256 of the files that may be installed."""

    name: str
    version: str
    digests: tuple[str, ...]

    @property
    def purl(self) -> str:
        """How bills of materials name it."""
        return f"pkg:pypi/{self.name}@{self.version}"


def locked_packages(lock: str) -> list[Locked]:
    """All packages of a lock file as uv writes it, by name."""
    return sorted(
        Locked(normal_name(name), version, tuple(re.findall(r"sha256:([0-9a-f]{64})", hashes)))
        for name, version, hashes in _PINNED.findall(lock)
    )


def normal_name(requirement: str) -> str:
    """``Ruamel.yaml_x[extra]>=2`` -> ``ruamel-yaml-x``."""
    name = re.match(r"[\w.-]+", requirement)
    if name is None:
        raise ValueError(f"no package is named by {requirement!r}")
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def bill_of_materials(
    lock: str, version: str, needs: Iterable[str], epoch: int | None, compiled_by: Mapping[str, str]
) -> bytes:
    """The bill of a version. needs: its own requirements. epoch: SOURCE_DATE_EPOCH. compiled_by: versions of what
    made the machine code that the wheel carries, by name; nothing where it carries none.
    """
    packages = locked_packages(lock)
    purls = {package.name: package.purl for package in packages}
    ours = f"pkg:pypi/kanonflow@{version}"
    component = {"type": "library", "bom-ref": ours, "name": "kanonflow", "version": version, "purl": ours}
    metadata: dict[str, Any] = {"lifecycles": [{"phase": "build"}], "component": component}
    if epoch is not None:
        metadata["timestamp"] = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if compiled_by:
        metadata["properties"] = [
            {"name": f"kanonflow:machine-code-made-by:{name}", "value": made}
            for name, made in sorted(compiled_by.items())
        ]
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": metadata,
        "components": [_component(package) for package in packages],
        # What needs which of the others does not stand in a lock.
        "dependencies": [{"ref": ours, "dependsOn": sorted({purls[normal_name(need)] for need in needs})}],
    }
    text = json.dumps(bill, sort_keys=True)
    bill["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, text).urn
    return (json.dumps(bill, indent=1, sort_keys=True) + "\n").encode()


def _component(package: Locked) -> dict[str, Any]:
    files = {
        "type": "distribution",
        "url": f"https://pypi.org/simple/{package.name}/",
        "hashes": [{"alg": "SHA-256", "content": digest} for digest in package.digests],
    }
    return {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
        "scope": "required",
        "externalReferences": [files],
    }
