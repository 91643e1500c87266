"""Read-only checks of the directories of a table: locations that no commit log and no merge record names."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from sparkhaven.readers.checks.findings import CheckFinding, finding
from sparkhaven.store.epochs.recovery.set_aside import SET_ASIDE
from sparkhaven.store.epochs.state.removed_locations import DOOMED
from sparkhaven.store.format.parquet.location_files import NAME
from sparkhaven.store.format.table import table_size
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.seen_history import SeenDate


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


def _differing(place: TablePlace, seen: SeenDate) -> Iterator[CheckFinding]:
    """Locations of a date that were moved or added by other means than a command."""
    adopt = f"`sparkhaven dates adopt {place.table} --dates {seen.value}` writes a merge record for it"
    for internal, before in seen.moved.items():
        where = place.history_location(LocationKey(internal, seen.value))
        yield finding("note", where, f"moved here from storage partition {before} since its merge", hint=adopt)
    for location in seen.unvouched:
        where = place.history_location(location.key)
        yield finding(
            "warning",
            where,
            "no merge record vouches for this location. Readers take it as it stands",
            expected=f"a record in {place.merges / seen.value}",
            found="none",
            hint=f"{adopt}. Move it away if it is a stray copy",
        )
        for column in location.lost:
            what = f"files of column {column} are missing. Readers take its values as null"
            yield finding("warning", where / f"{column}.dat", what, hint="restore them from a copy")


def check_history_directories(
    place: TablePlace,
    records: Mapping[str, MergeRecord],
    unfinished: Mapping[str, MergeRecord],
    dates: Mapping[str, SeenDate],
) -> Iterator[CheckFinding]:
    """Directories of history that no merge record names, and broken links of storage partitions.

    ``dates``: the history of each as readers see it.
    """
    root = place.partitions
    current = {LocationKey(out.internal, value) for value, r in records.items() for out in r.outputs}
    for seen in dates.values():
        current |= {LocationKey(internal, seen.value) for internal in seen.moved}
        yield from _differing(place, seen)
    standing = {location.key for seen in dates.values() for location in seen.unvouched}
    unpublished = {key for seen in dates.values() for key in seen.unpublished}
    coming = {LocationKey(out.internal, value) for value, r in unfinished.items() for out in r.outputs}
    for internal in place.fs.names(root):
        for value in place.fs.names(root / internal):
            path = root / internal / value / place.table.table
            key = LocationKey(internal, value)
            if key in current or key in standing or place.fs.stat(path) is None:
                continue
            if key in unpublished:
                yield finding(
                    "warning",
                    path,
                    "nothing says how many rows this location has. Readers ignore it",
                    expected=f"{table_size.NAME}, or {NAME} alone",
                    found=", ".join(place.fs.names(path)[:3]) or "an empty directory",
                    hint="have the program that wrote it publish it, or move it away if it is a stray copy",
                )
            elif key in coming:
                yield finding("note", path, "written by an unfinished merge. Readers ignore it")
            elif value in records:
                yield finding("note", path, "replaced by a newer merge. Kept until no reader can use it")
    writable = place.layout.writable_partitions(place.table.namespace)
    for name in place.fs.names(writable):
        if place.fs.stat(writable / name) is None:
            yield finding("error", writable / name, "link of a writable storage partition is broken")
