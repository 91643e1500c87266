"""A table whose numbers rise from row to row, and what a query of one table reads of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparkhaven.readers.sql.query import QueryOptions, open_query
from sparkhaven.store.expressions.predicate.expression import parse_predicate
from sparkhaven.store.io.fs import Fs
from tests.support.tables.small_tables import SmallTable

D1, D2, D3 = "2026-11-19", "2026-11-20", "2026-11-21"
NOON = 1_795_089_600_000_000_000  # 2026-11-19T12:00:00Z
DAY = 86_400_000_000_000


def rising(root: Path) -> SmallTable:
    """Ten rows a date, in commits of five, of two sources; Size, Px and At rise."""
    made = SmallTable(root)
    for day, date in enumerate((D1, D2, D3)):
        for part, internal in enumerate("ab"):
            first = day * 10 + part * 5
            made.add(
                internal,
                date,
                {
                    "Sym": ["X", "Y", None, 'it\'s "q"\\', "é"],
                    "Size": list(range(first, first + 5)),
                    "Px": [first + n / 10 for n in range(5)],
                    "At": [NOON + day * DAY + part * 1_000 + n for n in range(5)],
                    "Live": [True, False, None, True, False],
                    "Note": [f"n{first}", None, f"n{first}a", None, None],
                },
            )
    return made


def asked(
    root: Path, query: str, *, fs: Fs | None = None, **options: Any
) -> tuple[list[tuple[Any, ...]], int, str | None]:
    """Rows of a query of one table, rows read for it, and the condition that was pushed down."""
    with open_query(root, query, QueryOptions(**options), fs=fs) as result:
        found = result.batches.read_all()
        (scan,) = result.scans
        rows = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
        if scan.where is None:
            return rows, scan.rows_read, None
        assert scan.where == parse_predicate(scan.where.text, scan.table.schema)  # what is shown is what is done
        return rows, scan.rows_read, scan.where.text
