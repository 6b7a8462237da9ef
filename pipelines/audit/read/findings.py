"""Failures as the audit finds them, in words that hold no record's value."""

from dataclasses import dataclass, field


@dataclass
class Findings:
    """Failures as they are found; the same one in several releases becomes one line."""

    _places: dict[str, list[str]] = field(default_factory=dict)

    def add(self, message: str, *release_ids: str) -> None:
        """Note a failure of some releases, or of the whole run."""
        places = self._places.setdefault(message, [])
        places.extend(release_id for release_id in release_ids if release_id not in places[-1:])

    def __bool__(self) -> bool:
        return bool(self._places)

    def messages(self) -> tuple[str, ...]:
        """One line a failure, in the order of discovery; of several releases the first is named."""
        return tuple(
            message if not places else f"{message} ({_releases(places)})"
            for message, places in self._places.items()
        )


def _releases(places: list[str]) -> str:
    return f"release {places[0]}" + (f" and {len(places) - 1} more" if len(places) > 1 else "")
