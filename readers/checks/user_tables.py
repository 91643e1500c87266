"""Read-only checks of user tables: definition, locations, and directories that no save has committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from sparkhaven.readers.checks.column_values import Expected
from sparkhaven.readers.checks.findings import CheckFinding, Report, finding, from_error
from sparkhaven.readers.checks.location import check_location
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.places import TablePlace
from sparkhaven.store.users.user_table import (
    DEFINITION,
    UNKNOWN,
    UserTable,
    load_user_table,
    splayed_of,
    user_directories,
)

LOOKS = 4  # at a table that is saved meanwhile
RESTORE = "restore the file from a copy, or save the table again with mode replace"
NEXT = "the next save of the table removes it"


def check_user_table(place: TablePlace, *, deep: bool, progress: Callable[[str], None]) -> Report:
    """Findings of a user table as it was at one moment: after a save meanwhile, it is looked at again."""
    for _ in range(LOOKS):
        report = Report(tables=1)
        try:
            table = load_user_table(place)
            if table is None:
                return Report()
            report.findings += _checked(place, table, report, deep=deep, progress=progress)
            again = load_user_table(place)
        except (SparkhavenError, OSError) as error:
            report.findings.append(replace(from_error(error, place.user_definition), hint=RESTORE))
            return report
        if again is not None and again.save == table.save:
            break
    return report


def _checked(
    place: TablePlace, table: UserTable, report: Report, *, deep: bool, progress: Callable[[str], None]
) -> Iterator[CheckFinding]:
    yield from _definition(place, table)
    schema = table.schema
    definitions = {encode_tbl(table.definition)}
    live: set[Path] = set()
    for key, held in sorted(table.locations.items()):
        directory = (splayed_of(place, table.since) or place.splayed) if table.splayed else place.user_location(key)
        live.add(directory)
        progress(str(directory))
        report.locations += 1
        report.rows += held.rows
        report.bytes += sum(state.size for state in held.files.values())
        if not table.save and place.fs.stat(directory / DEFINITION) is not None:
            definitions.add(place.fs.read(directory / DEFINITION))  # another program has other bytes
        known = all(state.crc != UNKNOWN for state in held.files.values())
        expected = Expected("history", directory, held.rows, held.files, {})
        for defect in check_location(place.fs, schema, expected, definitions, deep=deep and known):
            yield replace(defect, hint=RESTORE if defect.severity == "error" else NEXT)
    kept = set() if table.record is None else {place.user_location(key) for key in table.record.replaced}
    for directory in user_directories(place):
        stage = directory.name.startswith(f".{place.table.table}.stage-")
        if directory not in live and directory not in kept and (stage or table.record is not None):
            what = "directory that no save has committed"
            yield finding("warning", directory, what, hint=NEXT + ", if none is running")


def _definition(place: TablePlace, table: UserTable) -> Iterator[CheckFinding]:
    if table.save and place.fs.read(place.user_definition) != encode_tbl(table.definition):
        yield finding(
            "error",
            place.user_definition,
            "the definition is not that of the rows",
            expected=f"the definition of save {table.save}",
            found="another one",
            hint="save the table: any save writes the definition again",
        )
