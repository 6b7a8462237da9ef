"""What releases say in their schemas of the promise that they were made under. It is public, for they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kanonflow.pipelines.analysis.released_files import release_paths, release_schema
from kanonflow.schemas.avro_schema import PROPERTY
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.promises.promises import promise_of_release


def stated_promise(release: Path) -> Mapping[str, Any]:
    """policy, k, protect, cohort and epoch, as metrics have them; {} where there is no release.

    epoch: None where they name several, or none. Reads the head of every file.
    Raises InputError: a file is damaged or no release, or two say different things.
    """
    heads = [(path, _stated(path)) for path in release_paths(release)]
    if not heads:
        return {}
    first, head = heads[0]
    for path, other in heads:
        for name in ("policy", "k", "protect", "cohort"):
            if other[name] != head[name]:
                raise InputError(
                    f"{path}: its {name} is not that of {first}; a page tells of releases of one policy"
                )
    epochs = {each["epoch"] for _, each in heads}
    return {**head, "epoch": head["epoch"] if len(epochs) == 1 else None}


def _stated(path: Path) -> Mapping[str, Any]:
    schema = release_schema(path)
    told = schema.get(PROPERTY) if isinstance(schema, Mapping) else None
    own = told if isinstance(told, Mapping) else {}
    k, epoch = own.get("k"), own.get("epoch")
    promise = promise_of_release(own.get("protect"), epoch)
    if type(k) is not int or k < 2 or promise is None:
        raise InputError(f"{path}: is no release of kanonflow: its schema does not say k and protect")
    return {
        "policy": str(own.get("policy", "")),
        "k": k,
        "protect": promise.protect,
        "cohort": promise.cohort,
        "epoch": epoch,
    }
