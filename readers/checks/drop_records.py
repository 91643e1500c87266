"""Checks the records of dropped tables: each is whole, and none of their numbers is missing."""

from __future__ import annotations

from collections.abc import Iterator

from sparkhaven.readers.checks.findings import CheckFinding, finding, from_error
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.dropped_tables import drop_numbers, drop_path, dropped_tables, load_drop
from sparkhaven.store.places import TablePlace


def damaged_drops(fs: Fs, layout: Layout, table: TableName | None) -> Iterator[CheckFinding]:
    """Damage of the records of one table (None: of all). A later record is the witness of those before it.

    Where the last one is lost, the files that it stands for are those of a table without a schema.
    """
    for name in dropped_tables(fs, layout):
        if table not in (None, name):
            continue
        place = TablePlace(fs, layout, name)
        numbers = drop_numbers(place)
        for number in range(1, max(numbers, default=0) + 1):
            path = drop_path(place, number)
            if number not in numbers:
                yield finding(
                    "error",
                    path,
                    f"the record of a drop of {name} is missing",
                    expected=f"drops 1 to {numbers[-1]}",
                    found="no such file",
                    hint="restore it from a copy. It is the evidence of what the table had, no row depends on it",
                )
                continue
            try:
                load_drop(place, number)
            except (SparkhavenError, OSError) as error:
                yield from_error(error, path)
