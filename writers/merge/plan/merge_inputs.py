"""What a merge of a date reads: rows of intraday that are not merged yet, or history with the rows since.

Rows are known by where they lie (stream, source, epoch of the location's creation) and by their numbers, so that a
merge knows what an earlier one took, and sees whether a source has changed while it worked.

``kept`` and withdrawn rows of the sources are given as readers read them, for checks; a merge itself reads raw entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from sparkhaven.store import next_steps
from sparkhaven.store.digest import add, digest_array, digest_rows, row_hashes, to_hex
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.errors import SnapshotMovedError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey, in_parquet
from sparkhaven.store.merges.merge_records import InputKey, MergeInput, MergeRecord
from sparkhaven.store.merges.merge_run import LeftOut
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.column_file import ColumnFile, count_values, open_column, open_parquet
from sparkhaven.store.types.model import Column, TableSchema
from sparkhaven.store.types.row_ranges import RowRanges
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.sources.merge_source import SIZES, MergeSource
from sparkhaven.writers.merge.sources.parquet_source import text_bytes


def unmerged(
    place: TablePlace, locations: Sequence[tuple[str, LocationState]], merged: dict[InputKey, int]
) -> list[MergeSource]:
    """Rows of intraday beyond those of ``merged``, by location; withdrawn ones are not among the ``kept``.

    SnapshotMovedError: the stream was rolled back below rows that history has.
    """
    sources = []
    for stream, location in locations:
        start = merged.get((stream, location.key.internal, location.since), 0)
        if start > location.rows:
            raise SnapshotMovedError(
                "history has rows that the stream has rolled back since",
                where=f"{place.table} {location.key.value}, source {location.key.internal}",
                expected=f"{start} rows or more",
                found=f"{location.rows} rows",
                hint=next_steps.merge_again(place.table, location.key.value),
                phase="plan",
            )
        if start < location.rows:
            directory = place.intraday_location(location.key)
            key = location.key.internal
            sources.append(
                MergeSource(
                    directory,
                    stream,
                    key,
                    location.since,
                    location.epoch,
                    start,
                    location.rows,
                    location.rows,
                    dict(location.files.items()),  # at once; by name each would be unpacked from all
                    kept=location.withdrawn.outside(start, location.rows) if location.withdrawn else None,
                    named_by=location.named_by,
                )
            )
    return sources


def has_all(base: MergeRecord, locations: Sequence[tuple[str, LocationState]]) -> bool:
    """Whether intraday still has every merged row and can be the source again."""
    rows = {(stream, loc.key.internal, loc.since): loc.rows for stream, loc in locations}
    return all(i.rows == 0 or i.key in rows for i in base.inputs)


def history_sources(place: TablePlace, record: MergeRecord) -> list[MergeSource]:
    sources = []
    for output in record.outputs:
        directory = place.history_location(LocationKey(output.internal, record.value))
        rows, named = (0, output.rows, output.rows), output.named_by
        pinned = "", output.internal, 0, record.generation
        sources.append(MergeSource(directory, *pinned, *rows, output.files, named_by=named))
    return sources


def history_of(place: TablePlace, schema: TableSchema, base: MergeRecord) -> list[MergeSource]:
    """The sources in history of a merge: in tie order, with the bytes of texts."""
    sources = sorted(history_sources(place, base), key=lambda source: source.internal)
    return [replace(source, text_bytes=text_bytes(place.fs, source, schema.stored)) for source in sources]


def all_inputs(base: MergeRecord | None, locations: Sequence[tuple[str, LocationState]]) -> tuple[MergeInput, ...]:
    """What the record says was merged: the locations of now, and those that were merged before and are gone."""
    now = {
        (stream, loc.key.internal, loc.since): MergeInput(
            stream, loc.key.internal, loc.since, loc.epoch, loc.rows, loc.withdrawn.rows, loc.withdrawn.crc
        )
        for stream, loc in locations
    }
    gone = {i.key: i for i in base.inputs} if base else {}
    return tuple(sorted((gone | now).values()))


def still_pinned(plan: MergePlan, pins: Pins) -> None:
    """SnapshotMovedError: a source was rolled back or removed while its rows were merged."""
    moved = _moved(pins, plan.value, [(s.stream, s.internal, s.since, s.stop) for s in plan.sources])
    if moved is not None:
        raise SnapshotMovedError(
            "a source was rolled back or removed while the date was merged",
            where=f"{plan.table} {plan.value}, source {moved[0]}",
            expected=moved[1],
            found=moved[2],
            hint="merge the date again",
            phase="check",
        )


def holds(record: MergeRecord, pins: Pins) -> bool:
    """Whether the sources of a merge that was killed after its check are unchanged."""
    sources = [(source.stream, source.internal, source.since, source.stop) for source in record.run.sources]
    if _moved(pins, record.value, sources) is not None:
        return False
    now = {(stream, loc.key.internal, loc.since): loc for stream, loc in pins.locations(record.value)}
    return all(taken.leaves_out(now[taken.key].withdrawn) for taken in record.inputs if taken.key in now)


def _moved(pins: Pins, value: str, sources: Sequence[tuple[str, str, int, int]]) -> tuple[str, str, str] | None:
    now = {(stream, loc.key.internal): loc for stream, loc in pins.locations(value)}
    for stream, internal, since, stop in sources:
        location = now.get((stream, internal))
        if stream and (location is None or location.since != since or location.rows < stop):
            rows_now = "nothing" if location is None else f"{location.rows} rows since epoch {location.since}"
            return internal, f"{stop} rows since epoch {since}", rows_now
    return None


def withdrawn_rows(fs: Fs, schema: TableSchema, sources: Sequence[MergeSource]) -> LeftOut:
    """The rows of sources that none of them keeps, before a rule leaves out others. Raises what a column raises."""
    gone = [(source, source.kept.outside(source.start, source.stop)) for source in sources if source.kept is not None]
    gone = [(source, rows) for source, rows in gone if rows]
    if not gone:
        return LeftOut()
    totals = dict.fromkeys((column.name for column in schema.stored), 0)
    filled = dict.fromkeys((column.id for column in schema.stored), 0)
    for source, rows in gone:
        for column, digest, values in _summed(fs, schema, source, rows):
            totals[column.name] = add(totals[column.name], digest)
            filled[column.id] += values
    count = sum(rows.rows for _, rows in gone)
    digests, row_digest = {name: to_hex(digest) for name, digest in totals.items()}, _digest(fs, schema, gone)
    return LeftOut(count, 0, digests, count, filled=filled, row_digest=row_digest)


def kept_rows_digest(fs: Fs, schema: TableSchema, sources: Sequence[MergeSource]) -> str:
    """The digest of the rows that sources keep, with what was computed of them, all stored columns together."""
    return _digest(fs, schema, [(source, source.rows_kept) for source in sources])


def _digest(fs: Fs, schema: TableSchema, rows_of: Iterable[tuple[MergeSource, RowRanges]]) -> str:
    total = 0
    for source, rows in rows_of:
        opened = list(_opened(fs, schema, source))
        for part in rows.steps(SIZES.rows):
            arrays = [file.take(part) for _, file in opened]
            total = add(total, digest_rows(row_hashes(schema.stored, arrays, part.rows)))
    return to_hex(total)


def _opened(fs: Fs, schema: TableSchema, source: MergeSource) -> Iterator[tuple[Column, ColumnFile]]:
    sizes = {name: state.size for name, state in source.files.items()}
    parquet = open_parquet(fs, source.directory, sizes, source.rows) if in_parquet(sizes) else None
    for column in schema.stored:
        own = source.of(column)
        if parquet is not None and own is source:
            yield column, parquet.column(column.at(own.named_by))
        else:
            files = {name: state.size for name, state in own.files.items()}
            yield column, open_column(fs, own.directory, column.at(own.named_by), files, own.rows)


def _summed(fs: Fs, schema: TableSchema, source: MergeSource, rows: RowRanges) -> Iterator[tuple[Column, int, int]]:
    """Digest and number of values of each stored column over some rows of a location."""
    for column, opened in _opened(fs, schema, source):
        digest = filled = 0
        for part in rows.steps(SIZES.rows):
            values = opened.take(part)
            digest = add(digest, digest_array(column, values))
            filled += count_values(column, values)
        yield column, digest, filled
