"""The independent audit over what a schedule left, laid down as files."""

from __future__ import annotations

import csv
import json
import tempfile
from pathlib import Path

from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.audit.chain import audit_chain
from kanonflow.schemas.policy_file import to_mapping
from kanonflow.transforms.secret.seeds import people_key
from tests.simulation.invariants import rejected_again, went_back
from tests.simulation.play import Played
from tests.simulation.store import BUCKET
from tests.small_feeds import SECRET
from tests.swapped_feeds import NO_TEXT


def audited(played: Played) -> list[str]:
    """What the audit finds at fault. Not asked of feeds that no text file can hold, or of rows in two books."""
    feed = played.feed
    if (
        went_back(played)
        or rejected_again(played)
        or played.stopped
        or any(NO_TEXT in row.said.values() for row in feed.rows)
    ):
        return []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        policy, rows = folder / "policy.yaml", folder / "rows.csv"
        policy.write_text(json.dumps(to_mapping(feed.policy)))
        records = [feed.record(number) for number in range(len(feed.rows))]
        with rows.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(records[0]))
            writer.writeheader()
            writer.writerows(records)
        for output in played.outputs:
            _lay_down(played, output, folder)
        outputs = [folder / output.rpartition("/")[2] for output in played.outputs]
        key = people_key(SECRET) if played.schedule.protection == "lasting" else None
        if len(outputs) == 1:
            report = audit(policy, [str(rows)], outputs[0], people_key=key, allow_empty=True)
        else:
            report = audit_chain(
                policy, [str(rows)], [str(each) for each in outputs], people_key=key, allow_empty=True
            )
        return [f"audit: {failure}" for failure in report.failures]


def _lay_down(played: Played, output: str, folder: Path) -> None:
    (folder / output.rpartition("/")[2] / "release").mkdir(parents=True)
    for path in played.store.below(output):
        file = folder / path.removeprefix(f"{BUCKET}/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(played.store.objects[path])
    for private in folder.glob("*/restricted/**/*"):
        private.chmod(0o700 if private.is_dir() else 0o600)
    for private in folder.glob("*/restricted"):
        private.chmod(0o700)
