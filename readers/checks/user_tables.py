"""Read-only checks of user tables: definition, locations, and directories that no save has committed.

Intraday data that other programs append is checked location by location, each as its ``table.size`` says at the time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sparkhaven.readers.checks.column_values import Expected
from sparkhaven.readers.checks.findings import CheckFinding, Report, finding, from_error
from sparkhaven.readers.checks.location import check_location
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.tbl import decode_tbl, definition_name, encode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.committed_columns import UNKNOWN
from sparkhaven.store.users.user_table import (
    DEFINITION,
    UserTable,
    intraday_location,
    load_user_table,
    published,
    splayed_of,
    user_directories,
)

LOOKS = 4  # at a table that is saved meanwhile
RESTORE = "restore the file from a copy, or save the table again with mode replace"
NEXT = "the next save of the table removes it"
OTHERS = "restore the file from a copy, or from the program that writes it"


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
    for key in sorted(table.intraday):
        live.add(intraday_location(place, key))
        progress(str(intraday_location(place, key)))
        yield from _intraday(place, table, key, report, deep=deep)
    kept = set() if table.record is None else {place.user_location(key) for key in table.record.replaced}
    for directory in user_directories(place):
        stage = directory.name.startswith(f".{place.table.table}.stage-")
        if directory in live or directory in kept:
            continue
        if place.user_intraday in directory.parents:
            what = "directory of intraday data that nothing reads"
            hint = "its table has no partitions" if table.splayed else "its location is not published, or was truncated"
            yield finding("warning", directory, what, hint=hint)
        elif stage or table.record is not None:
            what = "directory that no save has committed"
            yield finding("warning", directory, what, hint=f"{NEXT}, if an interrupted one wrote it. Else move it away")


def _intraday(
    place: TablePlace, table: UserTable, key: LocationKey, report: Report, *, deep: bool
) -> Iterator[CheckFinding]:
    """A location that another program may append to: as long as it grows meanwhile, it is looked at again."""
    directory = intraday_location(place, key)
    name = definition_name(place.fs.names(directory), place.table.table)
    same: set[bytes] = set()
    with suppress(SparkhavenError):  # the check of the location names what is wrong with it
        definition = place.fs.read(directory / name) if name is not None else b""
        same |= {definition} if decode_tbl(definition, directory).columns == table.definition.columns else set()
    for _ in range(LOOKS):
        size = table_size.load(place.fs, directory)
        if size is None:
            return
        held = published(size)
        known = all(state.crc != UNKNOWN for state in held.files.values())
        state = place.fs.read(directory / table_size.NAME)
        expected = Expected("intraday", directory, held.rows, held.files, {}, published=state)
        defects = [*check_location(place.fs, table.schema, expected, same, deep=deep and known)]
        if not defects or place.fs.read(directory / table_size.NAME) == state:
            break
    report.locations += 1
    report.rows += held.rows
    report.bytes += sum(state.size for state in held.files.values())
    yield from (replace(defect, hint=OTHERS) for defect in defects)


def undefined_tables(fs: Fs, layout: Layout, defined: Collection[TableName]) -> Iterator[CheckFinding]:
    """Intraday data of user tables that have no definition, which no reader finds."""
    if layout.user_intraday_name is None:
        return
    base = layout.root / layout.user_intraday_name
    for namespace in fs.names(base):
        for name in fs.names(base / namespace):
            if f"{namespace}.{name}" not in map(str, defined):
                what = "directory of intraday data of no user table"
                expected = f"Users/{namespace}/Definitions/{name}.tbl"
                hint = "restore the definition from a copy, or remove the directory"
                yield finding("warning", base / namespace / name, what, expected=expected, found="no file", hint=hint)


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
