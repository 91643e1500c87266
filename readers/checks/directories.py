"""Read-only checks of the directories of a table: locations that no commit log and no merge record names."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from sparkhaven.readers.checks.findings import CheckFinding, finding
from sparkhaven.store.epochs.recovery.set_aside import SET_ASIDE
from sparkhaven.store.epochs.state.tombstone import DOOMED
from sparkhaven.store.format.table import table_size
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.places import TablePlace


def check_intraday_directories(
    place: TablePlace, located: Container[LocationKey], aside: Container[tuple[LocationKey, str]]
) -> Iterator[CheckFinding]:
    """Directories of intraday data that no commit log has. ``aside``: locations set aside, by key and directory."""
    root = place.intraday
    for internal in place.fs.names(root):
        if internal in (".streams", ".set-aside"):
            continue
        for value in place.fs.names(root / internal) if place.fs.is_dir(root / internal) else [None]:
            key = LocationKey(internal, value or "")
            names = place.fs.names(root / internal / value) if value else []
            moved = list(_set_aside(place, key, names, aside))
            yield from (defect for defect in moved if defect is not None)
            if key in located or (moved and len(names) == len(moved)):
                continue
            yield finding(
                "warning",
                root / internal / value if value else root / internal,
                "no stream has committed this. Readers ignore it",
                hint="after an interrupted batch run `sparkhaven recover`, which removes it. Else move it away",
            )


def _set_aside(
    place: TablePlace, key: LocationKey, names: Iterable[str], aside: Container[tuple[LocationKey, str]]
) -> Iterator[CheckFinding | None]:
    """Names in the directory of a date that were set aside; None for one that its note reports."""
    directory = place.intraday / key.internal / key.value
    for name in names:
        if (key, name) in aside:
            yield None
        elif name.startswith(SET_ASIDE):
            what = "set aside by a recovery: not part of the table"
            yield finding("note", directory / name, what, hint="compare it with the table, then remove it")
        elif name.startswith(DOOMED):
            again = f"`sparkhaven delete {place.table} --dates {key.value}` removes it"
            yield finding("note", directory / name, "moved away: history has its rows", hint=again)


def check_history_directories(
    place: TablePlace, records: Mapping[str, MergeRecord], unfinished: Mapping[str, MergeRecord]
) -> Iterator[CheckFinding]:
    """Directories of history that no merge record names, and broken links of storage partitions."""
    root = place.partitions
    current = {LocationKey(out.internal, value) for value, r in records.items() for out in r.outputs}
    coming = {LocationKey(out.internal, value) for value, r in unfinished.items() for out in r.outputs}
    for internal in place.fs.names(root):
        for value in place.fs.names(root / internal):
            path = root / internal / value / place.table.table
            if LocationKey(internal, value) in current or place.fs.stat(path) is None:
                continue
            if LocationKey(internal, value) in coming:
                yield finding("note", path, "written by an unfinished merge. Readers ignore it")
            elif value in records:
                yield finding("note", path, "replaced by a newer merge. Kept until no reader can use it")
            else:
                whole = place.fs.stat(path / table_size.NAME) is not None
                yield finding(
                    "error" if whole else "warning",
                    path,
                    "no merge record names this location. Readers ignore it",
                    expected=f"a record in {place.merges / value}",
                    found="none",
                    hint="restore the merge records of the date, or move the location away if it is a stray copy",
                )
    writable = place.layout.writable_partitions(place.table.namespace)
    for name in place.fs.names(writable):
        if place.fs.stat(writable / name) is None:
            yield finding("error", writable / name, "link of a writable storage partition is broken")
