"""``docs/evidence/file-operations.md``: what the table of file operations expects, which a test runs.

``python -m tests.support.moves.page`` writes the page.
"""

from __future__ import annotations

from tests.support.moves.operations import OPERATIONS, Operation
from tests.support.places import REPOSITORY

PAGE = REPOSITORY / "docs" / "evidence" / "file-operations.md"
INTRO = """# What file operations on history do

Each line is one ordinary operation on a table of two dates, of three and two rows, in storage partition 0. A test
does it and looks by `open_table`, `read`, `sql`, `verify`, `metadata`, `dates adopt`, `merge` and `dates drop`. *Says*
is what a read tells on standard error. Numbers are exit codes: of `verify` and `metadata validate` right after the
operation, of `metadata update`, and of `verify --deep` then. After `dates adopt --accept-loss` every read is silent,
and every check ends with 0. `python -m tests.support.moves.page` writes this page.

| of | operation | rows read | says | `verify` | `validate` | `update` | then `verify` | `adopt` |
|---|---|---|---|---|---|---|---|---|
"""


def line(row: Operation) -> str:
    rows = f"exit code {row.read}" if row.rows is None else str(len(row.rows))
    if row.rows and None in row.rows:
        rows += ", null in the lost column"
    codes = (row.verify, row.validate, row.update, row.verify_updated, row.adopt)
    cells = (row.object, row.operation, rows, row.told.replace("|", "; "), *map(str, codes))
    return f"| {' | '.join(cells)} |".replace("|  |", "| |") + "\n"


def page() -> str:
    return INTRO + "".join(map(line, OPERATIONS))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
