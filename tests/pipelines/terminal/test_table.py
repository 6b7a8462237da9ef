"""Columns of a table stand below each other."""

from kanonflow.pipelines.terminal.table import aligned


def test_columns_have_one_width() -> None:
    """Those of ``left`` begin together, the others end together; nothing trails."""
    table = [("field", "share", "told"), ("a", "12.5%", "no"), ("longer", "3%", "")]
    assert list(aligned(table, left=(0, 2))) == [
        "    field   share  told",
        "    a       12.5%  no",
        "    longer     3%",
    ]
    assert list(aligned(table))[1] == "         a  12.5%    no"
