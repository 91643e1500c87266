"""Detaches dates of history: a directory outside of the database gets them, with a manifest, and readers no longer.

The steps: *stage* links or copies the files beside their place, syncs them, reads them back and writes the manifest;
*publish* renames the directory; *drop* stores a merge record without outputs, which names the directory and the id of
its manifest. The former locations go as those of every replaced generation do. Killed before the record, the date is
where it was, and the next call goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sparkhaven.store.errors import SparkhavenError, TableExistsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.detached import LOCATIONS, NAME, DetachedManifest, encode_detached, load_detached
from sparkhaven.store.merges.history import DateHistory, load_history
from sparkhaven.store.merges.merge_records import MergeRecord, lock_table, store_record
from sparkhaven.store.merges.merge_run import Detached, MergePhase
from sparkhaven.store.merges.validations import validation_path
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.standing import dated_partitions
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.volumes import require_volumes
from sparkhaven.writers.merge.adoption import adopted_by_command
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.publish.publish_phase import PublishPhase
from sparkhaven.writers.merge.publish.unfinished_copies import without_unfinished_copy
from sparkhaven.writers.merge.write.phases import Failure
from sparkhaven.writers.relocation.copied_date import not_enough_space
from sparkhaven.writers.relocation.location_copies import (
    copy_location,
    directories_of,
    require_output,
    require_sums,
    size_of,
)
from sparkhaven.writers.removal.history_removal import droppable, emptying_record


@dataclass(frozen=True, slots=True)
class DetachedDate:
    """A date that was detached, or would be: its ``size`` in bytes, and the directory that has it.

    ``generation``: that of the record; 0 where the date was detached before.
    """

    value: str
    rows: int
    size: int
    path: Path
    generation: int


def detach_dates(
    place: TablePlace,
    values: Sequence[str],
    out: Path,
    *,
    clock: Callable[[], float],
    dry_run: bool = False,
    on_copied: Callable[[str, int], object] = lambda value, size: None,
) -> Iterator[DetachedDate | Failure]:
    """Detaches merged dates to ``out``, one result each; a failed one does not stop the others.

    MergeError: intraday still has the date, or a merge of it is unfinished. TableNotFoundError: it was never merged.
    LockLostError, before anything else: a merge is running. ``clock``: seconds since the epoch. ``on_copied`` receives
    the bytes of each piece of a date.
    """
    detaching = _Detaching(place, out / str(place.table), clock, on_copied)
    if dry_run:
        yield from (detaching.date(value, Pins(place), dry_run=True) for value in values)
        return
    with lock_table(place):
        pins = Pins(place)
        for value in values:
            yield detaching.date(value, pins, dry_run=False)


class _Detaching:
    def __init__(
        self, place: TablePlace, out: Path, clock: Callable[[], float], on_copied: Callable[[str, int], object]
    ) -> None:
        self._place, self._out, self._clock, self._on_copied = place, out, clock, on_copied
        self._schema = load_deployed(place)
        self._publishing = PublishPhase(place, clock)

    def date(self, value: str, pins: Pins, *, dry_run: bool) -> DetachedDate | Failure:
        place = self._place
        try:
            history = load_history(place, value)
            if not dry_run:
                history = without_unfinished_copy(place, self._publishing.tidied(history))
            history = adopted_by_command(place, history, dated_partitions(place), self._clock, pins, dry_run=dry_run)
            last = history.last
            if last is not None and not last.complete and last.phase is MergePhase.CHECK and _by_detach(history):
                return self._closed(history, last)
            base = droppable(place, history, pins)
            if not base.outputs:
                return self._before(base)
            require_volumes(place, base)
            path = self._out / f"{value}.g{base.generation}"
            size = sum(size_of(place.fs, source) for source, _ in self._sources(base))
            rows = sum(output.rows for output in base.outputs)
            if dry_run:
                return DetachedDate(value, rows, size, path, base.generation + 1)
            manifest = self._written(path, base, size)
            record = emptying_record(self._schema, history, f"detached to {path}", self._clock)
            parts = (*base.run.detached, Detached(manifest.id, str(path), rows, size))
            record = replace(record, run=replace(record.run, detached=parts))
            with place.fs.during("detach-drop"):
                store_record(place, record)
            return self._closed(history.after(record), record)
        except (SparkhavenError, OSError) as error:
            return Failure(error)

    def _before(self, base: MergeRecord) -> DetachedDate:
        """The result for a date without history: where it went, if a detachment has emptied it."""
        last = base.run.detached[-1] if base.run.detached else Detached("", "", 0, 0)
        return DetachedDate(base.value, 0, 0, Path(last.path), 0)

    def _closed(self, history: DateHistory, record: MergeRecord) -> DetachedDate | Failure:
        (closed,) = self._publishing.close([history])
        part = record.run.detached[-1]
        if isinstance(closed, Failure):
            return closed
        return DetachedDate(record.value, part.rows, part.size, Path(part.path), record.generation)

    def _sources(self, base: MergeRecord) -> list[tuple[Path, str]]:
        keys = [LocationKey(output.internal, base.value) for output in base.outputs]
        return [(self._place.history_location(key), key.internal) for key in keys]

    def _written(self, path: Path, base: MergeRecord, size: int) -> DetachedManifest:
        """The manifest of the directory, which is written unless a killed call has done so."""
        fs = self._place.fs
        if fs.stat(path) is not None:
            manifest = load_detached(fs, path)
            if replace(manifest.record, phase=base.phase) != base:
                raise TableExistsError(
                    "something else was detached to this directory",
                    where=path,
                    expected=f"merge {base.generation} of {base.table} {base.value}",
                    found=f"another merge {manifest.record.generation} of {manifest.record.table}",
                    hint="choose another directory with --out",
                )
            require_sums(fs, path / LOCATIONS, manifest.files)
            return manifest
        stage = path.with_name(f".stage-{path.name}")
        fs.remove_tree(stage)
        try:
            fs.mkdirs(stage)
            manifest = self._staged(stage, base, size)
        except (SparkhavenError, OSError):
            fs.remove_tree(stage)
            raise
        with fs.during("detach-publish"):
            fs.rename(stage, path)
            fs.sync_dirs([self._out, self._out.parent])
        return manifest

    def _staged(self, stage: Path, base: MergeRecord, size: int) -> DetachedManifest:
        place, fs = self._place, self._place.fs
        sources = self._sources(base)
        linked = all(_same_device(fs, source, stage) for source, _ in sources)
        if not linked and size > (free := fs.free_bytes(stage)):
            raise not_enough_space(stage, size, free)
        with fs.sync_guard(stage) as guard, fs.during("detach-stage"):
            sums: dict[str, FileState] = {}
            for source, internal in sources:
                target = stage / LOCATIONS / internal
                copied = copy_location(fs, source, target, lambda n: self._on_copied(base.value, n), link=True)
                sums |= {f"{internal}/{name}": state for name, state in copied.items()}
            validation = validation_path(place, base.value, base.generation)
            manifest = DetachedManifest(
                base,
                sums,
                tuple((column.id, column.name, column.type.name) for column in self._schema.stored),
                fs.read(validation) if fs.stat(validation) is not None else None,
                int(self._clock() * 1000),
            )
            fs.write_new(stage / NAME, encode_detached(manifest))
            files = [*(stage / LOCATIONS / name for name in sums), stage / NAME]
            guard.sync(files, [stage, *directories_of(stage / LOCATIONS, sums)])
        with fs.during("detach-check"):
            require_sums(fs, stage / LOCATIONS, sums)
            for output in base.outputs:
                require_output(fs, self._schema, base.value, stage / LOCATIONS / output.internal, output)
        return manifest


def _by_detach(history: DateHistory) -> bool:
    """Whether the last record of a date is that of a detachment."""
    before = history.current.run.outside if history.current is not None else ()
    known = {part.id for part in before}
    return history.last is not None and any(part.id not in known for part in history.last.run.detached)


def _same_device(fs: Fs, one: Path, other: Path) -> bool:
    stats = [fs.stat(one), fs.stat(other)]
    return all(stats) and len({stat.device for stat in stats if stat is not None}) == 1
