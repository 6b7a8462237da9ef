"""Chains of two nights that an older build made (fixtures/make_old_chains.py), laid out to be read and gone on from."""

from __future__ import annotations

import tarfile
from pathlib import Path

_ARCHIVE = Path(__file__).parent / "fixtures" / "chains_26c8339.tar.gz"


def old_chains(folder: Path) -> Path:
    """``secret``, ``in/`` and the chains ``waits`` and ``collides``, below ``folder``."""
    with tarfile.open(_ARCHIVE) as archive:
        archive.extractall(folder, filter="tar")
    (folder / "chains").chmod(0o755)
    # The filter takes group and others nothing; what is private stays so.
    return folder / "chains"
