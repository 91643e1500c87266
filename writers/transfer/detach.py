"""Detaches dates of history: a directory outside of the database gets them, with a manifest, and readers no longer.

A detached date is a directory ``<table>/<value>.g<generation>``. Below ``locations`` it has the files of history, byte
for byte, a directory for each internal partition; beside it the manifest, whose parts are those partitions. ``about``
has the merge ``record`` and its ``validation`` or null (the bytes of their files, in base64), ``columns`` (lists of id,
name, type of the schema), ``table``, ``value``, ``generation``, ``rows`` and ``time_ms``. The database remembers the id
of the manifest until the date is attached again.

The directory is copied, synced, verified and published as ``copying`` says, by links where the file system has them.
Then *drop* stores a merge record without outputs, which names the directory and the id. The former locations go as
those of every replaced generation do. Killed before that record, the date is where it was, and the next call goes on.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sparkhaven.store.errors import SparkhavenError, TableExistsError
from sparkhaven.store.format.manifest import DETACHED, Manifest, ManifestPart, encode, load
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.history import DateHistory, load_history
from sparkhaven.store.merges.merge_records import MergeRecord, decode_record, encode_record, lock_table, store_record
from sparkhaven.store.merges.merge_run import Detached, MergePhase
from sparkhaven.store.merges.validations import Validation, decode_validation, validation_path
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.model import TableSchema
from sparkhaven.store.volumes import require_volumes
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.write.phases import Failure
from sparkhaven.writers.removal.history_removal import droppable, emptying_record
from sparkhaven.writers.transfer.copying import FileCopies, publish, require_files, staged
from sparkhaven.writers.transfer.date_copies import (
    DateCopies,
    RelocatedDate,
    not_enough_space,
    require_output,
    size_of,
)

LOCATIONS = "locations"


@dataclass(frozen=True, slots=True)
class DetachedDate:
    """The manifest of a detached date as its writer and ``dates attach`` know it."""

    manifest: Manifest
    record: MergeRecord
    columns: tuple[tuple[int, str, str], ...]
    validation: bytes | None

    @staticmethod
    def of(manifest: Manifest, where: object) -> DetachedDate:
        """The view of a manifest; what is missing or odd is a ValueError or alike."""
        about = manifest.about
        record = decode_record(b64decode(about["record"]), where)
        columns = tuple((int(number), str(name), str(kind)) for number, name, kind in about["columns"])
        validation = about["validation"]
        return DetachedDate(manifest, record, columns, None if validation is None else b64decode(validation))

    @property
    def id(self) -> str:
        return self.manifest.id

    @property
    def rows(self) -> int:
        return sum(output.rows for output in self.record.outputs)

    @property
    def size(self) -> int:
        return sum(part.bytes for part in self.manifest.parts.values())

    def validated(self, where: object) -> Validation | None:
        return None if self.validation is None else decode_validation(self.validation, where)

    def verify(self, fs: Fs, schema: TableSchema, directory: Path) -> None:
        """Reads all files from the disk: they are those of the manifest, their rows those of the merge record."""
        require_files(fs, directory, self.manifest.files)
        for output in self.record.outputs:
            require_output(fs, schema, self.record.value, directory / LOCATIONS / output.internal, output)


def load_detached(fs: Fs, directory: Path) -> DetachedDate:
    """The manifest of a detached date. Raises as ``manifest.load``."""
    return load(fs, directory, DETACHED, partial(DetachedDate.of, where=directory / DETACHED.name))


def detach_dates(
    place: TablePlace,
    values: Sequence[str],
    out: Path,
    *,
    clock: Callable[[], float],
    dry_run: bool = False,
    on_progress: Callable[[str], object] = lambda _: None,
) -> Iterator[RelocatedDate | Failure]:
    """Detaches merged dates to ``out``, one result each; a failed one does not stop the others.

    MergeError: intraday still has the date, or a merge of it is unfinished. TableNotFoundError: it was never merged.
    LockLostError, before anything else: a merge is running. ``clock``: seconds since the epoch.
    """
    detaching = _Detaching(DateCopies(place, clock, on_progress, link=True), out / str(place.table))
    if dry_run:
        yield from (detaching.date(value, Pins(place), dry_run=True) for value in values)
        return
    with lock_table(place):
        pins = Pins(place)
        for value in values:
            yield detaching.date(value, pins, dry_run=False)


class _Detaching:
    def __init__(self, copies: DateCopies, out: Path) -> None:
        self._copies, self._place, self._out = copies, copies.place, out

    def date(self, value: str, pins: Pins, *, dry_run: bool) -> RelocatedDate | Failure:
        place, copies = self._place, self._copies
        try:
            history = copies.adopted(load_history(place, value), pins, dry_run=dry_run)
            last = history.last
            if last is not None and not last.complete and last.phase is MergePhase.CHECK and _by_detach(history):
                return self._closed(history, last)
            base = droppable(place, history, pins)
            if not base.outputs:  # the result is where it went, if a detachment has emptied it
                before = base.run.detached[-1] if base.run.detached else Detached("", "", 0, 0)
                return RelocatedDate(value, 0, 0, 0, Path(before.path))
            require_volumes(place, base)
            path = self._out / f"{value}.g{base.generation}"
            size = sum(size_of(place.fs, source) for source, _ in self._sources(base))
            rows = sum(output.rows for output in base.outputs)
            if dry_run:
                return RelocatedDate(value, rows, size, base.generation + 1, path)
            written = self._written(path, base, size)
            record = emptying_record(copies.schema, history, f"detached to {path}", copies.clock)
            parts = (*base.run.detached, Detached(written.id, str(path), rows, size))
            record = replace(record, run=replace(record.run, detached=parts))
            with place.fs.during("detach-drop"):
                store_record(place, record)
            return self._closed(history.after(record), record)
        except (SparkhavenError, OSError) as error:
            return Failure(error)

    def _closed(self, history: DateHistory, record: MergeRecord) -> RelocatedDate | Failure:
        part = record.run.detached[-1]
        done = RelocatedDate(record.value, part.rows, part.size, record.generation, Path(part.path))
        return self._copies.closed(history) or done

    def _sources(self, base: MergeRecord) -> list[tuple[Path, str]]:
        keys = [LocationKey(output.internal, base.value) for output in base.outputs]
        return [(self._place.history_location(key), key.internal) for key in keys]

    def _written(self, path: Path, base: MergeRecord, size: int) -> DetachedDate:
        """The manifest of the directory, which is written unless a killed call has done so."""
        fs = self._place.fs
        if fs.stat(path) is not None:
            detached = load_detached(fs, path)
            if replace(detached.record, phase=base.phase) != base:
                raise TableExistsError(
                    "something else was detached to this directory",
                    where=path,
                    expected=f"merge {base.generation} of {base.table} {base.value}",
                    found=f"another merge {detached.record.generation} of {detached.record.table}",
                    hint="choose another directory with --out",
                )
            require_files(fs, path, detached.manifest.files)
            return detached
        stage = path.with_name(f".stage-{path.name}")
        with staged(fs, stage, "another detachment to this directory"):
            detached = self._staged(stage, base, size)
            with fs.during("detach-publish"):
                publish(fs, stage, path)
                fs.sync_dirs([self._out.parent])
        return detached

    def _staged(self, stage: Path, base: MergeRecord, size: int) -> DetachedDate:
        fs, sources = self._place.fs, self._sources(base)
        linked = all(_same_device(fs, source, stage) for source, _ in sources)
        if not linked and size > (free := fs.free_bytes(stage)):
            raise not_enough_space(stage, size, free)
        parts: dict[str, ManifestPart] = {}
        with fs.sync_guard(stage) as guard, fs.during("detach-stage"):
            copies = FileCopies(fs, stage, partial(self._copies.progress.count, base.value))
            for source, internal in sources:
                known = set(copies.files)
                copies.tree(source, stage / LOCATIONS / internal, link=True)
                files = {name: state for name, state in copies.files.items() if name not in known}
                parts[internal] = ManifestPart({}, files)
            detached = DetachedDate.of(Manifest(DETACHED, self._about(base), parts), stage)
            copies.write(stage / DETACHED.name, encode(detached.manifest))
            copies.sync(guard)
        with fs.during("detach-check"):
            detached.verify(fs, self._copies.schema, stage)
        return detached

    def _about(self, base: MergeRecord) -> dict[str, object]:
        place = self._place
        validation = validation_path(place, base.value, base.generation)
        passed = place.fs.read(validation) if place.fs.stat(validation) is not None else None
        return {
            "table": base.table,
            "value": base.value,
            "generation": base.generation,
            "rows": sum(output.rows for output in base.outputs),
            "columns": [[column.id, column.name, column.type.name] for column in self._copies.schema.stored],
            "record": b64encode(encode_record(base)).decode(),
            "validation": None if passed is None else b64encode(passed).decode(),
            "time_ms": int(self._copies.clock() * 1000),
        }


def _by_detach(history: DateHistory) -> bool:
    """Whether the last record of a date is that of a detachment."""
    before = history.current.run.outside if history.current is not None else ()
    known = {part.id for part in before}
    return history.last is not None and any(part.id not in known for part in history.last.run.detached)


def _same_device(fs: Fs, one: Path, other: Path) -> bool:
    stats = [fs.stat(one), fs.stat(other)]
    return all(stats) and len({stat.device for stat in stats if stat is not None}) == 1
