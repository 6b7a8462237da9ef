"""What takes a release's place: of a window that has ended, or beside it of rows that are older than the run."""

REGULAR, CLOSING = "release", "closing"
