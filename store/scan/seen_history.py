"""The history of a date as reads see it: what its merge record says, joined with what stands in the tree.

Tables move by ordinary file operations. An output of the record whose files stand in another storage partition is read
there, with the record's proof. One that is gone is left out. A location that no record of the date names is read as it
says itself, and no merge vouches for it. Both are told by a line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sparkhaven.store.errors import SnapshotMovedError, UnsupportedVersionError, ValidationFailedError, counted
from sparkhaven.store.format.column.region import DAT
from sparkhaven.store.format.table.table_size import NAME as TABLE_SIZE
from sparkhaven.store.io.open_files import Stat
from sparkhaven.store.layout import PARQUET, LocationKey, without_generation
from sparkhaven.store.merges.merge_records import MergeOutput, MergeRecord, all_values, generations, load_record, newest
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.standing import Dated, StandingLocation, dated_partitions, is_name, standing_location
from sparkhaven.store.volumes import absent_volume

SHOWN = 3  # locations that a line names


@dataclass(frozen=True, slots=True)
class SeenDate:
    """The history of one date. ``record``: the newest complete one, or that of an older snapshot; None without one.

    ``outputs``: the locations of the record with rows, each under the storage partition that has it now. ``moved``: by
    that, the storage partition that the record names. ``gone``: outputs that stand nowhere. ``unvouched``: locations
    that no record of the date names, with rows. ``unpublished``: directories of which nothing says how many they have.
    """

    value: str
    record: MergeRecord | None
    outputs: tuple[MergeOutput, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)
    gone: tuple[MergeOutput, ...] = ()
    unvouched: tuple[StandingLocation, ...] = ()
    unpublished: tuple[LocationKey, ...] = ()

    @property
    def as_recorded(self) -> bool:
        """Whether all is where the record says, and nothing else stands."""
        return not (self.moved or self.gone or self.unvouched or self.unpublished)

    def named(self, output: MergeOutput) -> str:
        """The storage partition that the record names for one of ``outputs``."""
        return self.moved.get(output.internal, output.internal)

    @property
    def locations(self) -> tuple[MergeOutput, ...]:
        """All that is read, by storage partition; of locations without a record the digests are not known."""
        others = (
            MergeOutput(location.key.internal, location.rows, files=dict(location.files), named_by=location.named_by)
            for location in self.unvouched
        )
        return tuple(sorted((*self.outputs, *others), key=lambda output: output.internal))


def recorded_date(record: MergeRecord) -> SeenDate:
    """The history of a date where all is as its record says."""
    return SeenDate(record.value, record, tuple(output for output in record.outputs if output.rows))


def refuse_lost(place: TablePlace, seen: SeenDate) -> None:
    """ValidationFailedError: rows of a merge, or files of a column, were removed by hand."""
    lost = [
        place.history_location(location.key) / f"{column}{DAT}"
        for location in seen.unvouched
        for column in location.lost
    ]
    if seen.gone or lost:
        gone = [place.history_location(LocationKey(output.internal, seen.value)) for output in seen.gone]
        raise ValidationFailedError(
            "history was removed by hand",
            where=[*gone, *lost][0],
            expected=f"{counted(seen.gone[0].rows, 'row')}, as the merge record says"
            if gone
            else "the files of a column",
            found="nothing, in any storage partition" if gone else "nothing",
            hint="restore it from a copy. To go on without it run "
            f"`sparkhaven dates adopt {place.table} --dates {seen.value} --accept-loss`",
        )


def refuse_unproved(place: TablePlace, dates: Sequence[SeenDate]) -> None:
    """ValidationFailedError: history of one of these dates is not as a merge record says: nothing proves its rows."""
    for seen in dates:
        if not seen.as_recorded:
            raise ValidationFailedError(
                "history of the date is not as its merge record says, so nothing proves its rows",
                where=f"{place.partitions}, {seen.value} of {place.table}",
                expected="the locations of its merge record",
                found=", ".join(remarks(place, [seen]).values()) or f"locations moved to {', '.join(seen.moved)}",
                hint=f"`sparkhaven dates adopt {place.table} --dates {seen.value}` counts them and writes a record",
            )


def require_recorded(place: TablePlace, value: str, record: MergeRecord) -> None:
    """ValidationFailedError: history of the date is not as its newest record says."""
    refuse_unproved(place, [see_date(place, value, record, dated_partitions(place))])


def see_date(
    place: TablePlace, value: str, record: MergeRecord | None, dated: Dated, opened_ns: int | None = None
) -> SeenDate:
    """The history of one date as it stands. ``record``: the one that is read. ``dated``: the directories of dates.

    ``opened_ns``: when the table was opened. SnapshotMovedError: a location has come or gone since.
    UnsupportedVersionError: several generations of a location stand that no record names.
    """
    outputs = [output for output in record.outputs if output.rows] if record is not None else []
    # looked at one by one: a merge may have published them after the directories were listed
    there = {o.internal: stat for o in outputs if (stat := _stat(place, o.internal, value))}
    missing = [output for output in outputs if output.internal not in there]
    named = {output.internal for output in outputs}
    others = {name: s for name in dated.get(value, ()) if name not in named and (s := _stat(place, name, value))}
    if missing and (record is None or record.generation != _newest_generation(place, value)):
        missing = []  # not removed by hand: a later merge has replaced them
    if not missing and not others:
        return SeenDate(value, record, tuple(outputs))
    known = _named(place, value, record) if others else set()
    same = {(s.device, s.inode) for s in (*there.values(), *(s for name, s in others.items() if name in known))}
    # a replaced location is none, but may be one that was moved back
    others = {n: s for n, s in others.items() if (missing and n in known) or (s.device, s.inode) not in same}
    standing, unpublished = _standing(place, value, others, known)
    standing.sort(key=lambda location: location.key.internal in known)  # a replaced location may have the same files
    moved: dict[str, str] = {}
    gone = []
    for output in missing:
        outputs.remove(output)
        location = next((location for location in standing if _is_output(location, output)), None)
        if location is not None:
            standing.remove(location)
            refuse_newer(place, location.key, opened_ns)
            moved[location.key.internal] = output.internal
            outputs.append(replace(output, internal=location.key.internal))
        elif absent_volume(place.fs, place.partitions / output.internal) is not None:
            outputs.append(output)  # there, once its volume is mounted
        else:
            refuse_newer(place, LocationKey(output.internal, value), opened_ns)
            gone.append(output)
    unvouched = [location for location in standing if location.key.internal not in known]
    for location in unvouched:
        refuse_newer(place, location.key, opened_ns)
    _refuse_generations(place, value, unvouched)
    return SeenDate(value, record, tuple(outputs), moved, tuple(gone), tuple(unvouched), tuple(unpublished))


def _standing(
    place: TablePlace, value: str, directories: Mapping[str, Stat], known: Collection[str]
) -> tuple[list[StandingLocation], list[LocationKey]]:
    """Locations among directories of a date, by storage partition, and those of which nothing says their rows.

    ``known``: the storage partitions that records of the date name.
    """
    by_inode: dict[tuple[int, int], StandingLocation] = {}
    unpublished = []
    for internal, stat in directories.items():  # a link and what it leads to are one location
        key = LocationKey(internal, value)
        if not is_name(key) or (stat.device, stat.inode) in by_inode:
            continue
        location = standing_location(place, key)
        if location is None and internal not in known:
            unpublished.append(key)
        elif location is not None and location.rows:
            by_inode[stat.device, stat.inode] = location
    return list(by_inode.values()), unpublished


def see_table(place: TablePlace) -> Iterator[SeenDate]:
    """The history of each date now, by its newest complete record."""
    dated = dated_partitions(place)
    for value in known_values(place, dated):
        yield see_date(place, value, newest(place, value), dated)


def known_values(place: TablePlace, dated: Dated) -> list[str]:
    """The dates that have a merge record or a location, in order."""
    recorded = set(all_values(place))
    return sorted(recorded | standing_values(place, dated.keys() - recorded, dated))


def history_values(place: TablePlace, *, detached: bool = False) -> list[str]:
    """The dates of history, in order: those with a location by their newest record, and those that have no record.

    ``detached``: also those that it was detached from.
    """
    recorded, dated = set(all_values(place)), dated_partitions(place)
    records = ((value, newest(place, value)) for value in recorded)
    values = {value for value, r in records if r is not None and (r.outputs or (detached and r.run.detached))}
    return sorted(values | standing_values(place, dated.keys() - recorded, dated))


def standing_values(place: TablePlace, values: Iterable[str], dated: Dated) -> set[str]:
    """Those of these dates of which a location of the table stands."""
    return {value for value in values if any(_stat(place, internal, value) for internal in dated.get(value, ()))}


def remarks(place: TablePlace, dates: Sequence[SeenDate]) -> dict[str, str]:
    """What is to be told of dates that are not as their records say: by kind one line, which names the first of it."""
    lines: dict[str, str] = {}
    standing = [location for seen in dates for location in seen.unvouched]
    if standing:
        rows = _rows(location.rows for location in standing)
        what = f"no merge record vouches for {rows} of history, which are read as they stand"
        lines["unvouched"] = f"{place.table}: {what}. {_names(location.name for location in standing)}"
    lost = [f"{column} of {location.name}" for location in standing for column in location.lost]
    if lost:
        lines["lost"] = (
            f"{place.table}: files of columns are missing, and their values are read as null. {_names(lost)}"
        )
    unpublished = [key for seen in dates for key in seen.unpublished]
    if unpublished:
        what = f"directories of history have neither {TABLE_SIZE} nor {PARQUET} alone, and are left out"
        lines["unpublished"] = f"{place.table}: {what}: {_names(f'{key.internal}/{key.value}' for key in unpublished)}"
    gone = [(seen.value, output) for seen in dates for output in seen.gone]
    if gone:
        what = f"{_rows(output.rows for _, output in gone)} of merged history were removed by hand, and are left out"
        lines["gone"] = f"{place.table}: {what}: {_names(f'{output.internal}/{value}' for value, output in gone)}"
    return lines


def _rows(numbers: Iterable[int]) -> str:
    return counted(sum(numbers), "row")


def _names(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:SHOWN]) + (f" and {len(every) - SHOWN:,} more" if len(every) > SHOWN else "")


def _stat(place: TablePlace, internal: str, value: str) -> Stat | None:
    stat = place.fs.stat(place.history_location(LocationKey(internal, value)))
    return stat if stat is not None and stat.is_dir else None


def _named(place: TablePlace, value: str, record: MergeRecord | None) -> set[str]:
    """Every storage partition that has rows by a record of the date: replaced locations, and those that a merge writes.

    A merge that ended may have planned others, where it wrote nothing: what stands there is not its own.
    """
    names: set[str] = set()
    numbers = generations(place, value)
    for known in (record if record and n == record.generation else load_record(place, value, n) for n in numbers):
        names.update(known.replaces, (output.internal for output in known.outputs if output.rows))
        if not known.complete:
            names.update(destination.internal for destination in known.run.destinations)
    return names


def _newest_generation(place: TablePlace, value: str) -> int | None:
    record = newest(place, value)
    return None if record is None else record.generation


def _is_output(location: StandingLocation, output: MergeOutput) -> bool:
    return location.rows == output.rows and not location.lost and dict(location.files) == output.files


def refuse_newer(place: TablePlace, key: LocationKey, opened_ns: int | None) -> None:
    """SnapshotMovedError: a location has come, gone or changed since the table was opened."""
    if opened_ns is None:
        return
    location = place.history_location(key)
    stat = place.fs.stat(location)
    above = _above(location)
    if stat is not None:
        changed = stat.ctime_ns > opened_ns or any(_was_renamed(place, path, opened_ns) for path in above)
    else:
        left = next((stat for path in above if (stat := place.fs.stat(path)) is not None), None)
        changed = left is not None and left.ctime_ns > opened_ns
    if changed:
        raise SnapshotMovedError(
            "history of the date was moved, added or removed by hand since the table was opened",
            where=location,
            expected="the locations of then",
            found="another directory, or none",
            hint="open the table again",
            phase="read",
        )


def _above(location: Path) -> tuple[Path, Path, Path]:
    """The directories of the date, of the storage partition, and of all of them."""
    return location.parent, location.parent.parent, location.parent.parent.parent


def _was_renamed(place: TablePlace, path: Path, opened_ns: int) -> bool:
    """Whether a directory itself was moved: a new entry changes both of its times."""
    stat = place.fs.stat(path)
    return stat is not None and stat.ctime_ns > opened_ns and stat.mtime_ns != stat.ctime_ns


def _refuse_generations(place: TablePlace, value: str, standing: Sequence[StandingLocation]) -> None:
    whole: dict[str, str] = {}
    for location in standing:
        base = without_generation(location.key.internal)
        if ".s" in location.key.internal[len(base) :]:
            continue  # a supplement counts beside what it was added to
        if base in whole:
            raise UnsupportedVersionError(
                "it is not known which generation counts",
                where=place.history_location(location.key),
                expected="one location of each storage partition",
                found=f"{whole[base]} and {location.key.internal} for {value}",
                hint="move those away that a later merge has replaced, or restore the merge records of the date",
            )
        whole[base] = location.key.internal
