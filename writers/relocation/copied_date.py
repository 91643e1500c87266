"""A date of history that gets another place: its locations are copied to staging, proved, and recorded.

The steps: *plan* stores a record that names the staging, *copy* writes the files, *sync* makes them durable, *check*
reads them back from the disk. Then ``PublishPhase`` publishes the record as it does that of a merge. Killed before the
record says *check*, the copy is undone by whatever takes the date next; killed later, it is published.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sparkhaven.store.errors import MergeError, RetryableStorageError, SparkhavenError
from sparkhaven.store.merges.history import DateHistory
from sparkhaven.store.merges.merge_records import MergeOutput, MergeRecord, store_record
from sparkhaven.store.merges.merge_run import Destination, MergePhase, MergeRun
from sparkhaven.store.merges.validations import Validation, binding, store_validation
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import TableSchema, ValidatorRule
from sparkhaven.writers.merge.publish.staged_locations import sweep
from sparkhaven.writers.merge.publish.unfinished_copies import undo_copy
from sparkhaven.writers.partitions import Volume, stage_root
from sparkhaven.writers.relocation.location_copies import (
    copy_location,
    directories_of,
    require_output,
    require_sums,
    size_of,
)


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

    place: TablePlace
    history: DateHistory
    record: MergeRecord
    parts: tuple[CopiedPart, ...]
    size: int
    validation: Validation | None = None


def plan_copy(
    place: TablePlace,
    history: DateHistory,
    base: MergeRecord,
    parts: Sequence[tuple[Path, MergeOutput, Volume]],
    run: MergeRun,
    *,
    time_ms: int,
    kept: Sequence[MergeOutput] = (),
    validation: Validation | None = None,
) -> PlannedCopy:
    """The copy of locations, each to a volume, as the next generation after ``history``.

    Locations of one volume are named so that their order by name stays. ``base``: inputs and proof of the new record.
    ``kept``: outputs that stay where they are.
    """
    generation = max((record.generation for record in history.records), default=0) + 1
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
        time_ms=time_ms,
        run=replace(run, destinations=tuple(p.destination for p in copied), work=None, sources=(), switched_ms=None),
    )
    size = sum(size_of(place.fs, part.source) for part in copied)
    return PlannedCopy(place, history, record, tuple(copied), size, validation)


def require_space(copies: Sequence[PlannedCopy], *, link: bool = False) -> list[RetryableStorageError | None]:
    """For each of these copies, which run together, the error if its volumes have no room for it and those before.

    ``link``: what lies on the same file system takes none.
    """
    errors: list[RetryableStorageError | None] = []
    free: dict[int, int] = {}
    for planned in copies:
        fs, error = planned.place.fs, None
        needed: dict[int, tuple[int, Path]] = {}
        for part in planned.parts:
            stat = fs.stat(part.destination.target.parent)
            device = stat.device if stat is not None else 0
            free.setdefault(device, fs.free_bytes(part.destination.target.parent))
            before = needed.get(device, (0, Path()))[0]
            source = fs.stat(part.source)
            shared = link and source is not None and source.device == device
            size = 0 if shared else size_of(fs, part.source)
            needed[device] = before + size, part.destination.target.parent
        for device, (size, path) in needed.items():
            if size > free[device]:
                error = not_enough_space(path, size, free[device])
        if error is None:
            free |= {device: free[device] - size for device, (size, _) in needed.items()}
        errors.append(error)
    return errors


def not_enough_space(path: Path, size: int, free: int) -> RetryableStorageError:
    """The error for a volume with ``free`` bytes, which ``size`` bytes are to be copied to."""
    return RetryableStorageError(
        "not enough space for the copy of the date",
        where=path,
        expected=f"{size:,} bytes",
        found=f"{free:,} bytes free",
        hint="free space on that volume, or choose fewer dates or another one",
        phase="plan",
    )


def stage_copy(
    planned: PlannedCopy, schema: TableSchema, on_copied: Callable[[int], object], *, link: bool = False
) -> MergeRecord:
    """Copies and proves a date; its record of phase ``check``, not stored. On an error nothing is left.

    ``link``: second names of files where the file system has them. Raises what ``require_output`` raises, and OSError.
    """
    place, record, fs = planned.place, planned.record, planned.place.fs
    try:
        with fs.during("copy-plan"):
            sweep(fs, record.run.staging)
            store_record(place, record)
        sums = _copied(planned, on_copied, link=link)
        with fs.during("copy-check"):
            for part in planned.parts:
                directory = part.destination.stage(place.table, record.value)
                require_sums(fs, directory, sums[part.output.internal])
                require_output(fs, schema, record.value, directory, part.output)
            if planned.validation is not None:
                bound = binding(record, schema.rules)
                store_validation(place, replace(planned.validation, generation=record.generation, binding=bound))
    except (SparkhavenError, OSError):
        undo_copy(place, record)
        raise
    return replace(record, phase=MergePhase.CHECK)


def _copied(planned: PlannedCopy, on_copied: Callable[[int], object], *, link: bool) -> dict[str, dict[str, FileState]]:
    place, record, fs = planned.place, planned.record, planned.place.fs
    sums: dict[str, dict[str, FileState]] = {}
    for part in planned.parts:
        base, stage = part.destination.stage_root.parent, part.destination.stage(place.table, record.value)
        with fs.sync_guard(base) as guard:
            with fs.during("copy-files"):
                sums[part.output.internal] = copy_location(fs, part.source, stage, on_copied, link=link)
            with fs.during("copy-sync"):
                parents = [parent for parent in stage.parents if base in parent.parents]
                names = sums[part.output.internal]
                guard.sync([stage / name for name in names], [*directories_of(stage, names), *parents, base])
    return sums


def passed_on(validation: Validation | None, base: MergeRecord, rules: Sequence[ValidatorRule]) -> Validation | None:
    """A validation of what is copied, where it is of that merge and by the rules of now."""
    return validation if validation is not None and validation.binding == binding(base, rules) else None


def finished(place: TablePlace, history: DateHistory, verb: str) -> MergeRecord:
    """The record of a date whose last merge is complete. MergeError: there is none, or it is unfinished."""
    base, last = history.current, history.last
    if base is None or not base.outputs:
        raise MergeError(
            f"date has no history to {verb}",
            where=f"{place.table} {history.value}",
            expected="a merged date",
            found="none" if base is None else "history that was dropped or detached",
            hint=f"`sparkhaven merge --status {place.table}` lists the dates",
        )
    if last is not base:
        raise MergeError(
            "a merge of the date is unfinished",
            where=f"{place.table} {history.value}",
            expected=f"merge {base.generation} as the last one",
            found=f"merge {last.generation if last else 0}",
            hint=f"sparkhaven merge {place.table} --dates {history.value}",
        )
    return base
