"""Copies of dates of history: what moves, detachments and attachments share, and the move to another partition.

A copied date has these steps: *plan* stores a record that names the staging, *copy*, *sync* and *verify* are those of
``copying``. Then ``PublishPhase`` publishes the record as it does that of a merge. Killed before the record says
*check*, the copy is undone by whatever takes the date next; killed later, it is published.

A move to another storage partition is copied, proved and published as a new generation. Readers change over at the
merge record. The former locations go as those of every replaced generation do, an hour later. The record says that the
date stays in its new partition, so that later merges of it write there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sparkhaven.store import next_steps
from sparkhaven.store.errors import (
    MergeError,
    RetryableStorageError,
    SparkhavenError,
    ValidationFailedError,
    counted,
    in_phase,
)
from sparkhaven.store.io.fs import Fs, size_below
from sparkhaven.store.layout import LocationKey, without_generation
from sparkhaven.store.merges.history import DateHistory, has_digests_of, load_history, of_now
from sparkhaven.store.merges.merge_records import MergeOutput, MergeRecord, lock_table, store_record, store_records
from sparkhaven.store.merges.merge_run import Destination, MergePhase, MergeRun, Relocated
from sparkhaven.store.merges.validations import Validation, binding, load_validation, store_validation
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.standing import dated_partitions
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.model import TableSchema, ValidatorRule
from sparkhaven.store.volumes import require_volumes
from sparkhaven.writers.merge.adoption import adopted_by_command
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.publish.publish_phase import PublishPhase
from sparkhaven.writers.merge.publish.staged_locations import sweep, undo_copy, unfinished, without_unfinished_copy
from sparkhaven.writers.merge.sources.merge_source import MergeSource, check_crc
from sparkhaven.writers.merge.write.phases import Failure
from sparkhaven.writers.partitions import Volume, chosen_volume, require_owner, stage_root
from sparkhaven.writers.transfer.copying import CopyProgress, FileCopies, require_files
from sparkhaven.writers.validation.rows.date_rows import RowSet
from sparkhaven.writers.validation.rules.merge_rules import digest_rows_of


@dataclass(frozen=True, slots=True)
class RelocatedDate:
    """A date that was moved, detached or attached, or would be: ``size`` in bytes of all files.

    ``generation``: that of the record; 0 where it was done before. ``origin``: of a move, the partitions before;
    ``path``: the directory of a detached date.
    """

    value: str
    rows: int
    size: int
    generation: int
    path: Path = Path()
    origin: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CopiedPart:
    """One location: the directory that is copied, its output under the new name, and where it goes."""

    source: Path
    output: MergeOutput
    destination: Destination


@dataclass(frozen=True, slots=True)
class PlannedCopy:
    """The copy of one date: ``record`` is what is stored before it, ``size`` the bytes of all files.

    ``validation`` is stored with it: what was copied has the same rows.
    """

    history: DateHistory
    record: MergeRecord
    parts: tuple[CopiedPart, ...]
    size: int
    validation: Validation | None = None


class DateCopies:
    """Copies dates of one table. ``clock``: seconds since the epoch. ``report`` is told of each GiB.

    ``link``: second names of files where the file system has them. ``dry_run``: says what would be done.
    """

    def __init__(
        self,
        place: TablePlace,
        clock: Callable[[], float],
        report: Callable[[str], object] = lambda _: None,
        *,
        link: bool = False,
        dry_run: bool = False,
    ) -> None:
        self.place, self.clock, self.link, self.dry_run = place, clock, link, dry_run
        self.progress = CopyProgress(report)
        self.schema: TableSchema = load_deployed(place)
        self.publishing = PublishPhase(place, clock)

    def locked(self) -> AbstractContextManager[object]:
        """Holds the lock of the table, unless nothing is changed. LockLostError: a merge is running."""
        return nullcontext() if self.dry_run else lock_table(self.place)

    def tidied(self, history: DateHistory) -> DateHistory:
        """What a killed copy has left of a date is removed. The caller holds the lock of the table."""
        return history if self.dry_run else without_unfinished_copy(self.place, self.publishing.tidied(history))

    def adopted(self, history: DateHistory, pins: Pins) -> DateHistory:
        """The history of a date, with a record for one that stands in the tree without."""
        partitions, history = dated_partitions(self.place), self.tidied(history)
        return adopted_by_command(self.place, history, partitions, self.clock, pins, dry_run=self.dry_run)

    def closed(self, history: DateHistory) -> Failure | None:
        """Publishes the last record of a date."""
        (closed,) = self.publishing.close([history])
        return closed if isinstance(closed, Failure) else None

    # --- plan ------------------------------------------------------------------------------------------

    def planned(
        self,
        history: DateHistory,
        base: MergeRecord,
        parts: Sequence[tuple[Path, MergeOutput, Volume]],
        run: MergeRun,
        validation: Validation | None,
        kept: Sequence[MergeOutput] = (),
    ) -> PlannedCopy:
        """The copy of locations, each to a volume, as the next generation after ``history``.

        Locations of one volume are named so that their order by name stays. ``base``: inputs and proof of the new
        record. ``kept``: outputs that stay where they are.
        """
        place, generation = self.place, history.next_generation
        ordered = sorted(parts, key=lambda part: part[1].internal)
        copied = []
        for number, (source, output, volume) in enumerate(ordered):
            several = sum(other.name == volume.name for _, _, other in ordered) > 1
            place_of = f".s{number:0{len(str(len(ordered) - 1))}}" if several else ""
            internal = f"{volume.name}.g{generation}{place_of}"
            staging = stage_root(volume, place.table, history.value, generation)
            target = Destination(volume.name, internal, staging, volume.target.parent / internal)
            copied.append(CopiedPart(source, replace(output, internal=internal), target))
        record = replace(
            base,
            generation=generation,
            phase=MergePhase.PLAN,
            outputs=(*kept, *(part.output for part in copied)),
            time_ms=int(self.clock() * 1000),
            run=replace(
                run, destinations=tuple(p.destination for p in copied), work=None, sources=(), switched_ms=None
            ),
        )
        size = sum(size_below(place.fs, part.source) for part in copied)
        return PlannedCopy(history, record, tuple(copied), size, validation)

    def space_errors(self, copies: Sequence[PlannedCopy]) -> list[RetryableStorageError | None]:
        """For each of these copies, which run together, the error if its volumes lack room for it and those before.

        What is linked takes none.
        """
        fs, errors, free = self.place.fs, list[RetryableStorageError | None](), dict[int, int]()
        for planned in copies:
            error = None
            needed: dict[int, tuple[int, Path]] = {}
            for part in planned.parts:
                stat = fs.stat(part.destination.target.parent)
                device = stat.device if stat is not None else 0
                free.setdefault(device, fs.free_bytes(part.destination.target.parent))
                before = needed.get(device, (0, Path()))[0]
                source = fs.stat(part.source)
                shared = self.link and source is not None and source.device == device
                size = 0 if shared else size_below(fs, part.source)
                needed[device] = before + size, part.destination.target.parent
            for device, (size, path) in needed.items():
                if size > free[device]:
                    error = not_enough_space(path, size, free[device])
            if error is None:
                free |= {device: free[device] - size for device, (size, _) in needed.items()}
            errors.append(error)
        return errors

    # --- copy, sync, verify, publish -------------------------------------------------------------------

    def run(self, copies: Sequence[PlannedCopy], *, workers: int = 1) -> dict[str, MergeRecord | Failure]:
        """Copies dates, ``workers`` at once, and publishes them together; the records by date."""
        if not copies:
            return {}
        with ThreadPoolExecutor(min(workers, len(copies))) as pool:
            staged = list(pool.map(self._staged, copies))
        results: dict[str, MergeRecord | Failure] = {
            planned.history.value: record for planned, record in zip(copies, staged, strict=True)
        }
        passed = [(p, record) for p, record in zip(copies, staged, strict=True) if not isinstance(record, Failure)]
        try:
            store_records(self.place, [record for _, record in passed])
        except (SparkhavenError, OSError) as error:
            for planned, record in passed:
                with suppress(SparkhavenError, OSError):
                    undo_copy(self.place, record)
                results[planned.history.value] = Failure(error)
            return results
        closed = self.publishing.close([planned.history.after(record) for planned, record in passed])
        failed = {p.history.value: last for (p, _), last in zip(passed, closed, strict=True)}
        return results | {value: last for value, last in failed.items() if isinstance(last, Failure)}

    def _staged(self, planned: PlannedCopy) -> MergeRecord | Failure:
        """Copies and proves a date; its record of phase ``check``, not stored. On an error nothing is left."""
        place, record, fs = self.place, planned.record, self.place.fs
        try:
            with in_phase("copy"):
                try:
                    with fs.during("copy-plan"):
                        sweep(fs, record.run.staging)
                        store_record(place, record)
                    for part in planned.parts:
                        self._copied(part, record.value)
                    if planned.validation is not None:
                        bound = binding(record, self.schema.rules)
                        stored = replace(planned.validation, generation=record.generation, binding=bound)
                        store_validation(place, stored)
                except (SparkhavenError, OSError):
                    undo_copy(place, record)
                    raise
        except (SparkhavenError, OSError) as error:
            return Failure(error)
        return replace(record, phase=MergePhase.CHECK)

    def _copied(self, part: CopiedPart, value: str) -> None:
        fs, base = self.place.fs, part.destination.stage_root.parent
        stage = part.destination.stage(self.place.table, value)
        copies = FileCopies(fs, base, partial(self.progress.count, value))
        with fs.sync_guard(base) as guard:
            with fs.during("copy-files"):
                copies.tree(part.source, stage, link=self.link)
            with fs.during("copy-sync"):
                copies.sync(guard)
        with fs.during("copy-check"):
            copies.read_back()
            require_output(fs, self.schema, value, stage, part.output)


def not_enough_space(path: Path, size: int, free: int) -> RetryableStorageError:
    """The error for a volume with ``free`` bytes, which ``size`` bytes are to be copied to."""
    return RetryableStorageError(
        "not enough space for the copy of the date",
        where=path,
        expected=counted(size, "byte"),
        found=f"{counted(free, 'byte')} free",
        hint="free space on that volume, or choose fewer dates or another one",
        phase="plan",
    )


def require_output(fs: Fs, schema: TableSchema, value: str, directory: Path, output: MergeOutput) -> None:
    """Reads a location. CorruptFileError: a file is not that of the merge record. ValidationFailedError: other rows."""
    for name, state in output.files.items():
        check_crc(fs, directory / name, state, stream="")
    require_files(fs, directory, output.indexes)
    rows, named = (0, output.rows, output.rows), output.named_by
    source = MergeSource(directory, "", output.internal, 0, 0, *rows, output.files, named_by=named)
    there, recorded = digest_rows_of(RowSet(fs, schema, value, (source,))), of_now(output, schema).digests
    differing = [name for name, digest in there.columns.items() if recorded.get(name, digest) != digest]
    whole = has_digests_of(schema, output.digests, output.named_by)
    if differing or (whole and there.rows != output.row_digest):
        what = f"values of column {differing[0]} are" if differing else "rows, all columns together, are"
        digest = recorded[differing[0]] if differing else output.row_digest
        raise ValidationFailedError(
            f"{what} not those of the merge",
            where=directory,
            expected=f"digest {digest} over {counted(output.rows, 'row')}",
            found=there.columns[differing[0]] if differing else there.rows,
            hint=f"`sparkhaven verify {schema.full_name} --deep` looks at the original",
        )


def passed_on(validation: Validation | None, base: MergeRecord, rules: Sequence[ValidatorRule]) -> Validation | None:
    """A validation of what is copied, where it is of that merge and by the rules of now."""
    return validation if validation is not None and validation.binding == binding(base, rules) else None


def move_dates(
    copies: DateCopies, values: Sequence[str], partition: str, *, workers: int = 1, stop_on_error: bool = False
) -> Iterator[RelocatedDate | Failure]:
    """Moves merged dates, one result each, in order; a failed one does not stop the others.

    ``workers`` dates are copied at once. ``stop_on_error``: one date after the other, and none after a failed one.
    TableNotFoundError, RetryableStorageError, before anything else: there is no such partition, or its volume is not
    mounted. LockLostError: a merge is running.
    """
    place = copies.place
    volume = chosen_volume(place.fs, place.layout, place.table.namespace, partition)
    with copies.locked():
        size = len(values) or 1 if copies.dry_run else 1 if stop_on_error else 2 * workers
        for first in range(0, len(values), size):
            for result in _wave(copies, volume, values[first : first + size], workers=workers):
                yield result
                if stop_on_error and isinstance(result, Failure) and not copies.dry_run:
                    return


def _wave(copies: DateCopies, volume: Volume, values: Sequence[str], *, workers: int) -> list[RelocatedDate | Failure]:
    """Dates that are copied at once and published together; results in order."""
    results: dict[str, RelocatedDate | Failure] = {}
    planned: list[PlannedCopy] = []
    for value in values:
        one = _planned(copies, volume, value)
        if isinstance(one, PlannedCopy):
            planned.append(one)
        else:
            results[value] = one
    todo = []
    for one, error in zip(planned, copies.space_errors(planned), strict=True):
        results[one.history.value] = Failure(error) if error is not None else replace(_moved(one.record), size=one.size)
        todo += [one] if error is None else []
    if not copies.dry_run:
        done = copies.run(todo, workers=workers)
        results |= {value: failed for value, failed in done.items() if isinstance(failed, Failure)}
    return [results[value] for value in values]


def _planned(copies: DateCopies, volume: Volume, value: str) -> PlannedCopy | RelocatedDate | Failure:
    """What is to be copied of a date; a result where there is nothing to copy."""
    place = copies.place
    try:
        history = load_history(place, value)
        killed = None if copies.dry_run else _killed_move(history, volume)
        if killed is not None:
            return copies.closed(history) or _moved(killed)
        history = copies.adopted(history, Pins(place))
        base = _finished(place, history)
        origin = tuple(sorted({without_generation(output.internal) for output in base.outputs}))
        if origin == (volume.name,):
            return RelocatedDate(value, base.rows, 0, 0, origin=origin)
        require_volumes(place, base)
        parts = []
        for output in base.outputs:
            source = place.history_location(LocationKey(output.internal, value))
            require_owner(place.fs, source, volume.target)
            parts.append((source, output, volume))
        run = replace(base.run, stays_in=volume.name, relocated=Relocated("move", ",".join(origin)))
        validation = passed_on(load_validation(place, base), base, copies.schema.rules)
        base = replace(base, replaces=tuple(output.internal for output in base.outputs))
        return copies.planned(history, base, parts, run, validation)
    except (SparkhavenError, OSError) as error:
        return Failure(error)


def _killed_move(history: DateHistory, volume: Volume) -> MergeRecord | None:
    """The record of a move to the same partition that was killed after its check: it only has to be published."""
    last = history.last
    if last is None or last.complete or not last.phase.reached(MergePhase.CHECK) or last.run.relocated is None:
        return None
    return last if last.run.relocated.by == "move" and last.run.stays_in == volume.name else None


def _finished(place: TablePlace, history: DateHistory) -> MergeRecord:
    """The record of a date whose last merge is complete. MergeError: there is none, or it is unfinished."""
    base = history.current
    if base is None or not base.outputs:
        raise MergeError(
            "date has no history to move",
            where=f"{place.table} {history.value}",
            expected="a merged date",
            found="none" if base is None else "history that was dropped or detached",
            hint=next_steps.merged_dates(place.table),
        )
    if history.last is not base:
        raise unfinished(place, history)
    return base


def _moved(record: MergeRecord) -> RelocatedDate:
    origin = record.run.relocated.origin.split(",") if record.run.relocated else []
    states = (state for output in record.outputs for state in (*output.files.values(), *output.indexes.values()))
    rows, size = record.rows, sum(state.size for state in states)
    return RelocatedDate(record.value, rows, size, record.generation, origin=tuple(origin))
