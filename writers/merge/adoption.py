"""Adopts history that stands in the tree without a merge record, or elsewhere than its record says.

A date that was moved, copied or written by other means than a command gets a record of its own: its locations stay
where they are, their files are read, and rows, digests and checksums are written down. From then on it is history as
any other: a merge goes on from it, a removal has its proof. A location that another program or an older schema wrote
gets the ``table.size`` and the ``table.tbl`` that a merge would have written. The steps are those of a publication: the
date is marked, the index written, then the record, which is the commit point. Killed before it, nothing was adopted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from sparkhaven.readers.arrow.opening import open_place
from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.readers.checks.committed import Expected
from sparkhaven.readers.checks.history import recorded_entries, seen_entries, stored_entries
from sparkhaven.readers.checks.index_rows import check_index_rows
from sparkhaven.store.digest import RowDigests, to_hex
from sparkhaven.store.epochs.files.published_size import TABLE_DEFINITION
from sparkhaven.store.errors import FormatError, SparkhavenError, TableNotFoundError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.tbl import definition_name
from sparkhaven.store.io.fs import Fs, files_below
from sparkhaven.store.layout import INDEX, LocationKey, sidecar_of
from sparkhaven.store.merges.history import (
    DateHistory,
    begin_publication,
    end_publication,
    in_columns,
    load_history,
)
from sparkhaven.store.merges.merge_records import (
    IMPORTED,
    MergeOutput,
    MergeRecord,
    lock_table,
    store_record,
    with_imported,
)
from sparkhaven.store.merges.merge_run import ADOPTED, MergePhase, Relocated, RowDeletion
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.checksums import file_state
from sparkhaven.store.scan.column_file import with_checksum
from sparkhaven.store.scan.ranges import refuse_doubled
from sparkhaven.store.scan.seen_history import SeenDate, known_values, refuse_lost, see_date
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.scan.standing import Dated, StandingLocation, dated_partitions
from sparkhaven.store.schema.deployed.deploy import definitions, load_deployed
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.plan.merge_proof import add_left_out, as_left_out, left_out_before, proof_of
from sparkhaven.writers.merge.publish.staged_locations import store_entries, sweep, unfinished

STEP_ROWS = 1 << 17
BY_HAND = "removed by file operations, and the loss was accepted"  # where a deletion has its condition


@dataclass(frozen=True, slots=True)
class AdoptedDate:
    """A date that was adopted, or would be. ``generation``: that of its record; 0 where all is as recorded.

    ``rows``: those that no record had, ``moved`` the locations that stand elsewhere, ``lost`` rows that are gone.
    """

    value: str
    rows: int = 0
    moved: int = 0
    lost: int = 0
    generation: int = 0
    error: SparkhavenError | OSError | None = None

    @property
    def differs(self) -> bool:
        """Whether anything of the date is not as its record says."""
        return bool(self.rows or self.moved or self.lost)


def adopt_dates(
    place: TablePlace,
    choose: Callable[[list[str]], Sequence[str]] | None,
    *,
    clock: Callable[[], float],
    accept_loss: bool = False,
    dry_run: bool = False,
) -> Iterator[AdoptedDate]:
    """Adopts what stands of dates, one result each, under the table's lock.

    ``choose`` gets all dates with a record or a location; None: those that are not as recorded. A failed date does not
    stop the others. ``accept_loss``: also where rows that a merge had written were removed by hand; their date then
    goes on without them. LockLostError: a merge is running.
    """
    with nullcontext() if dry_run else lock_table(place):
        dated = dated_partitions(place)
        known = known_values(place, dated)
        for value in known if choose is None else choose(known):
            try:
                if value not in known:
                    raise _nothing(place, value)
                history = load_history(place, value)
                seen = see_date(place, value, history.current, dated)
                if seen.as_recorded and choose is None:
                    continue
                after = history if dry_run else _adopted(place, history, seen, clock, accept_loss=accept_loss)
                yield AdoptedDate(
                    value,
                    sum(location.rows for location in seen.unvouched),
                    len(seen.moved),
                    sum(output.rows for output in seen.gone),
                    after.records[-1].generation if after is not history else 0,
                )
            except (SparkhavenError, OSError) as error:
                yield AdoptedDate(value, error=error)


def adopted_by_command(
    place: TablePlace,
    history: DateHistory,
    dated: Dated,
    clock: Callable[[], float],
    pins: Pins,
    *,
    dry_run: bool = False,
) -> DateHistory:
    """What a command that changes a date does first: the same, where it is sure that no row is there twice.

    CorruptFileError: a date without a record has rows in intraday, which may be those of history.
    """
    if history.current is None:
        seen = see_date(place, history.value, None, dated)
        if seen.unvouched:
            refuse_doubled(place, seen, (location for _, location in pins.locations(history.value)))
    return adopted(place, history, dated, clock, dry_run=dry_run)


def adopted(
    place: TablePlace,
    history: DateHistory,
    dated: Dated,
    clock: Callable[[], float],
    *,
    dry_run: bool = False,
) -> DateHistory:
    """The history of a date with a record of what stands of it; as it is where all stands as recorded.

    The caller holds the lock of the table. ValidationFailedError: rows of a merge are gone.
    MergeError: a merge of the date is unfinished. Raises what reading the locations raises.
    """
    seen = see_date(place, history.value, history.current, dated)
    return _adopted(place, history, seen, clock, dry_run=dry_run)


def _adopted(
    place: TablePlace,
    history: DateHistory,
    seen: SeenDate,
    clock: Callable[[], float],
    *,
    accept_loss: bool = False,
    dry_run: bool = False,
) -> DateHistory:
    if not (seen.moved or seen.unvouched or seen.gone):
        return history
    if not accept_loss:
        refuse_lost(place, seen)
    last = history.last
    if last is not None and not last.complete and last.phase.reached(MergePhase.CHECK):
        raise unfinished(place, history)
    record = _record(place, seen, history, int(clock() * 1000))
    if dry_run:
        return history.after(record)
    if last is not None and not last.complete:
        sweep(place.fs, last.run.staging)  # of a merge that was killed
    with place.fs.during("adopt"):
        known, added = definitions(place), {location.key.internal for location in seen.unvouched}
        for output in (output for output in record.outputs if output.internal in added):
            _publish(place, record, output, known)
        begin_publication(place, [history.value])
        _write_index(place, history.after(record))
        store_record(place, record)
        end_publication(place, [history.value])
    return history.after(record)


def _record(place: TablePlace, seen: SeenDate, history: DateHistory, now_ms: int) -> MergeRecord:
    schema, base = load_deployed(place), history.current
    pinned = pinned_of(open_place(place))
    outputs = [*seen.outputs, *(_scanned(pinned, schema, location) for location in seen.unvouched)]
    outputs.sort(key=lambda output: output.internal)
    empty = MergeRecord(str(place.table), seen.value, 0, MergePhase.CLEAN, (), (), source=IMPORTED)
    before = in_columns(base, schema) if base is not None else empty
    left_out = left_out_before(before, schema)
    if seen.gone:
        lost = as_left_out(replace(before, outputs=seen.gone), schema)
        # else a later merge takes them from intraday again
        told = (RowDeletion(BY_HAND, history.next_generation, lost.rows),)
        left_out = add_left_out(left_out, replace(lost, deletions=told), schema)
    record = replace(
        before,
        generation=history.next_generation,
        phase=MergePhase.CLEAN,
        inputs=with_imported(before.inputs, rows)
        if (rows := sum(location.rows for location in seen.unvouched))
        else before.inputs,
        outputs=tuple(outputs),
        time_ms=now_ms,
        replaces=(),
        schema_version=schema.version,
        run=replace(
            before.run,
            destinations=(),
            work=None,
            sources=(),
            switched_ms=now_ms,
            relocated=Relocated(ADOPTED, str(base.generation if base is not None else 0)),
        ),
    )
    return replace(record, proof=proof_of(record, left_out, schema))


def _scanned(pinned: PinnedTable, schema: TableSchema, location: StandingLocation) -> MergeOutput:
    """Reads a location: its rows, with digests, and the checksum of each file that has none."""
    place, directory = pinned.place, pinned.place.history_location(location.key)
    whole, named = (0, location.rows, location.rows), location.named_by
    slice_ = Slice("history", None, location.key, str(directory), *whole, location.files, {}, named_by=named)
    read = RowDigests(schema.stored)
    for arrays in pinned.arrays([slice_], schema.stored, None, STEP_ROWS):
        read.add(arrays, len(arrays[0]) if arrays else 0)
    files = {name: with_checksum(place.fs, directory / name, state) for name, state in location.files.items()}
    named_by = min(location.named_by, schema.version)
    then = {name: stem for stem, name in schema.names_at(named_by).items()}
    digests = {then.get(name, name): to_hex(total) for name, total in read.digests.items()}
    expected = Expected("history", directory, location.rows, files, {}, named_by=named_by)
    indexes, rows = _indexes(place.fs, schema, expected), to_hex(read.row_digest)
    key = location.key.internal
    return MergeOutput(key, location.rows, digests, files, indexes=indexes, row_digest=rows, named_by=named_by)


def _indexes(fs: Fs, schema: TableSchema, expected: Expected) -> dict[str, FileState]:
    """The files of those indexes that stand beside the rows, and name the rows of each key. The others are not used."""
    directory, proved = expected.directory, dict[str, FileState]()
    for top in (name for name in fs.names(directory) if name.startswith(INDEX)):
        sidecar = directory / sidecar_of(tuple(top.removeprefix(INDEX).split(",")))
        beside = [sidecar] if fs.stat(sidecar) is not None else []
        paths = [*files_below(fs, directory / top), *beside]
        files = {str(path.relative_to(directory)): file_state(fs, path) for path in paths}
        wanted = replace(expected, indexes=files)
        if next(check_index_rows(fs, schema, wanted, top, sidecar=bool(beside)), None) is None:
            proved |= files
    return proved


def _publish(place: TablePlace, record: MergeRecord, output: MergeOutput, known: Mapping[int, bytes]) -> None:
    """Writes what a location says of itself where it says something else: lost files, no checksums, another schema."""
    fs, directory = place.fs, place.history_location(LocationKey(output.internal, record.value))
    files = sorted(output.files.items())
    sizes, sums = {name: state.size for name, state in files}, {name: state.crc for name, state in files}
    there = table_size.load(fs, directory)
    size = there or table_size.TableSize(output.rows, record.time_ms, sizes, schema_version=output.named_by)
    size = replace(size, data_file_sizes=sizes, checksums=sums)
    if size != there:
        fs.replace(directory / table_size.NAME, table_size.encode(size))
    name = definition_name(fs.names(directory), place.table.table)
    if name is None or fs.read(directory / name) not in known.values():
        fs.replace(directory / TABLE_DEFINITION, known[output.named_by])


def _write_index(place: TablePlace, history: DateHistory) -> None:
    try:
        entries = stored_entries(place)
    except FormatError:
        entries = None
    known = seen_entries(place) if entries is None else entries
    others = {key: entry for key, entry in known.items() if key.value != history.value}
    written = (output for output in history.records[-1].outputs if output.rows)
    store_entries(place, others | recorded_entries(history, written, {}))


def _nothing(place: TablePlace, value: str) -> TableNotFoundError:
    return TableNotFoundError(
        "history has no such date",
        where=place.partitions,
        expected="a date that was merged, or of which a location stands",
        found=value,
        hint=f"`sparkhaven verify {place.table}` lists what no merge record vouches for",
    )
