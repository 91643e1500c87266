"""Detaches dates of history: a directory outside of the database gets them, with a manifest, and readers no longer.

A detached date is a directory ``<table>/<value>.g<generation>``. Below ``locations`` it has the files of history, byte
for byte, a directory for each internal partition; beside it the manifest, whose parts are those partitions. ``about``
has the merge ``record`` and its ``validation`` or null (the bytes of their files, in base64), ``columns`` (lists of id,
name, type of the schema), ``table``, ``value``, ``generation``, ``rows`` and ``time_ms``. The database remembers the id
of the manifest until the date is attached again.

The directory is copied, synced, verified and published as ``copying`` says, by links where the file system has them.
Then *drop* stores a merge record without outputs, which names the directory and the id. The former locations go as
those of every replaced generation do. Killed before that record, the date is where it was, and the next call goes on.

Dates that are attached again are verified as they lie, copied into the database, and published as a new generation.
The rows that the date has by now stay; those that are attached come beside them. The proof of the date counted them as
left out from the detachment on, and counts them as its rows again.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sparkhaven.store.digest import MODULUS, add, from_hex, to_hex
from sparkhaven.store.errors import (
    MergeError,
    SchemaMismatchError,
    SparkhavenError,
    TableExistsError,
    TableNotFoundError,
    counted,
)
from sparkhaven.store.format.manifest import DETACHED, Manifest, ManifestPart, encode, load
from sparkhaven.store.io.fs import Fs, size_below
from sparkhaven.store.layout import LocationKey, without_generation
from sparkhaven.store.merges.history import DateHistory, column_digests, in_columns, load_history, row_content
from sparkhaven.store.merges.merge_records import (
    MergeOutput,
    MergeRecord,
    all_values,
    decode_record,
    encode_record,
    newest,
    store_record,
    with_imported,
)
from sparkhaven.store.merges.merge_run import Detached, LeftOut, MergePhase, Relocated
from sparkhaven.store.merges.validations import Validation, decode_validation, validation_path
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.seen_history import refuse_unproved, see_date
from sparkhaven.store.scan.standing import dated_partitions
from sparkhaven.store.types.model import TableSchema
from sparkhaven.store.volumes import require_volumes
from sparkhaven.writers.merge.plan.dropped_columns import joined_drops
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.plan.merge_proof import left_out_before, proof_of
from sparkhaven.writers.merge.publish.staged_locations import unfinished
from sparkhaven.writers.merge.write.phases import Failure
from sparkhaven.writers.partitions import Volume, chosen_volume, ensure_writable
from sparkhaven.writers.removal.history_removal import droppable, emptying_record
from sparkhaven.writers.transfer.copying import FileCopies, publish, require_files, staged
from sparkhaven.writers.transfer.date_copies import (
    DateCopies,
    PlannedCopy,
    RelocatedDate,
    not_enough_space,
    passed_on,
    require_output,
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
        return self.record.rows

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


def detach_dates(copies: DateCopies, values: Sequence[str], out: Path) -> Iterator[RelocatedDate | Failure]:
    """Detaches merged dates to ``out``, one result each; a failed one does not stop the others.

    MergeError: intraday still has the date, or a merge of it is unfinished. TableNotFoundError: it was never merged.
    LockLostError, before anything else: a merge is running.
    """
    detaching = _Detaching(copies, out / str(copies.place.table))
    with copies.locked():
        pins = Pins(copies.place)
        for value in values:
            yield detaching.date(value, pins)


class _Detaching:
    def __init__(self, copies: DateCopies, out: Path) -> None:
        self._copies, self._place, self._out = copies, copies.place, out

    def date(self, value: str, pins: Pins) -> RelocatedDate | Failure:
        place, copies = self._place, self._copies
        try:
            history = copies.adopted(load_history(place, value), pins)
            last = history.last
            if last is not None and not last.complete and last.phase is MergePhase.CHECK and _by_detach(history):
                return self._closed(history, last)
            base = droppable(place, history, pins)
            if not base.outputs:  # the result is where it went, if a detachment has emptied it
                before = base.run.detached[-1] if base.run.detached else Detached("", "", 0, 0)
                return RelocatedDate(value, 0, 0, 0, Path(before.path))
            require_volumes(place, base)
            path = self._out / f"{value}.g{base.generation}"
            size = sum(size_below(place.fs, source) for source, _ in self._sources(base))
            rows = base.rows
            if copies.dry_run:
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
            "rows": base.rows,
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


def missing_parts(place: TablePlace, directory: Path, attached: list[Path]) -> Iterator[tuple[str, Failure]]:
    """Dates of which a part was detached to ``directory``, and that neither is there nor is one of ``attached``.

    A part that cannot be read is not among them: it fails by itself.
    """
    bases, ids, unread = {directory, directory / str(place.table)}, set[str](), set[Path]()
    for path in attached:
        try:
            ids.add(load_detached(place.fs, path).id)
        except (SparkhavenError, OSError):
            unread.add(path)
    for value in all_values(place):
        record = newest(place, value)
        for part in record.run.detached if record is not None else ():
            path = Path(part.path)
            if path.parent in bases and path not in unread and part.id not in ids and not part.replaced:
                error = MergeError(
                    "a detached part of the date is not in the directory",
                    where=path,
                    expected=f"detachment {part.id}, {counted(part.rows, 'row')}",
                    found="no manifest, or that of another part",
                    hint=f"restore it from a copy, then `sparkhaven dates attach {place.table} {path}`",
                )
                yield value, Failure(error)


def detached_below(place: TablePlace, directory: Path) -> list[Path]:
    """The detached dates of a table in a directory: itself, or those in it, or in its directory of the table.

    TableNotFoundError: there is none.
    """
    fs = place.fs
    if fs.stat(directory / DETACHED.name) is not None:
        return [directory]
    for base in (directory, directory / str(place.table)):
        dates = [base / name for name in fs.names(base) if fs.stat(base / name / DETACHED.name) is not None]
        if dates:
            return dates
    load_detached(fs, directory)  # raises
    raise AssertionError("unreachable")


def attach_dates(
    copies: DateCopies, directories: list[Path], partition: str | None = None
) -> Iterator[RelocatedDate | Failure]:
    """Attaches detached dates, one result each; a failed one does not stop the others. A dry run verifies them.

    ``partition``: the storage partition for all; default: those that they came from, where there are such. Files stay
    in the directories. SchemaMismatchError: another table, or columns that the schema does not have. MergeError: the
    date was not detached from this database, or has come back. CorruptFileError, ValidationFailedError: damaged.
    """
    attaching = _Attaching(copies, partition)
    with copies.locked():
        for directory in directories:
            yield attaching.date(directory)


class _Attaching:
    def __init__(self, copies: DateCopies, partition: str | None) -> None:
        self._copies, self._place, self._schema = copies, copies.place, copies.schema
        self._partition = partition

    def date(self, directory: Path) -> RelocatedDate | Failure:
        place, copies = self._place, self._copies
        try:
            detached = load_detached(place.fs, directory)
            self._require_table(directory, detached)
            value = detached.record.value
            history = copies.tidied(load_history(place, value))
            refuse_unproved(place, [see_date(place, value, history.current, dated_partitions(place))])
            last = history.last
            if last is not None and last.run.relocated == Relocated("attach", detached.id):
                if last.complete:
                    return RelocatedDate(value, detached.rows, 0, 0, directory)
                if last.phase is MergePhase.CHECK and not copies.dry_run:
                    done = RelocatedDate(value, detached.rows, detached.size, last.generation, directory)
                    return copies.closed(history) or done
            current = self._require_detached(directory, detached, history)
            detached.verify(place.fs, self._schema, directory)
            planned = self._planned(directory, detached, history, current)
            (error,) = copies.space_errors([planned])
            if error is not None:
                return Failure(error)
            record = planned.record if copies.dry_run else copies.run([planned])[value]
            if isinstance(record, Failure):
                return record
            return RelocatedDate(value, detached.rows, detached.size, record.generation, directory)
        except (SparkhavenError, OSError) as error:
            return Failure(error)

    def _require_table(self, directory: Path, detached: DetachedDate) -> None:
        table = str(self._place.table)
        if detached.record.table != table:
            raise SchemaMismatchError(
                "date of another table",
                where=directory,
                expected=table,
                found=detached.record.table,
                hint=f"sparkhaven dates attach {detached.record.table} {directory}",
            )
        if detached.record.schema_version > self._schema.version:
            raise SchemaMismatchError(
                "date was merged by a newer schema than is deployed",
                where=directory,
                expected=f"version {self._schema.version} at most",
                found=f"version {detached.record.schema_version}",
                hint="deploy the newer schema first, with `sparkhaven schema deploy FILE`",
            )
        columns = {column.id: column for column in (*self._schema.columns, *self._schema.retired)}
        for number, name, kind in detached.columns:
            column = columns.get(number)
            names = (column.name, *column.former_names) if column is not None else ()
            kinds = (column.type.name, *(form.type.name for form in column.forms)) if column is not None else ()
            if name not in names or kind not in kinds:
                raise SchemaMismatchError(
                    "columns of the date are not those of the table",
                    where=f"{directory}, column {name}",
                    expected=f"{names[0]}, {kinds[0]}" if column is not None else f"a column with id {number}",
                    found=f"{name}, {kind}, id {number}",
                    hint=f"read it with the schema it was detached by, and import it: `sparkhaven import"
                    f" {self._place.table} --help`",
                )

    def _require_detached(self, directory: Path, detached: DetachedDate, history: DateHistory) -> MergeRecord:
        """The newest record of the date, which names the manifest among what was detached."""
        where, current = f"{self._place.table} {history.value}", history.current
        if current is None or detached.id not in {part.id for part in current.run.detached}:
            back = any(detached.id in {part.id for part in record.run.attached} for record in history.complete)
            raise MergeError(
                "date was attached again already" if back else "date was not detached from this database",
                where=where,
                expected=f"detachment {detached.id}, which {directory / DETACHED.name} names",
                found=", ".join(part.id for part in current.run.detached) or "none"
                if current is not None
                else "no merge",
                hint="remove the directory, if it is not needed as a copy"
                if back
                else f"restore the snapshot that has it as detached, or import it: `sparkhaven import"
                f" {self._place.table} --help`",
            )
        if history.last is not current:
            raise unfinished(self._place, history)
        return current

    def _planned(
        self, directory: Path, detached: DetachedDate, history: DateHistory, current: MergeRecord
    ) -> PlannedCopy:
        record, current = in_columns(detached.record, self._schema), in_columns(current, self._schema)
        parts = [(directory / LOCATIONS / output.internal, output, self._volume(output)) for output in record.outputs]
        back = next(part for part in current.run.detached if part.id == detached.id)
        stays = current if current.outputs else record
        run = replace(
            stays.run,
            stays_in=self._partition or stays.run.stays_in,
            relocated=Relocated("attach", detached.id),
            detached=tuple(part for part in current.run.detached if part is not back),
            attached=(*current.run.attached, replace(back, replaced=False)),
            supplements=current.run.supplements + 1 if current.outputs else record.run.supplements,
        )
        left_out = current.proof.left_out if current.proof is not None else LeftOut()
        base = replace(current, replaces=())
        if back.replaced:  # no merge has counted them since
            base = replace(
                base,
                inputs=with_imported(current.inputs, detached.rows),
                column_drops=joined_drops(current.column_drops, record.column_drops),
                corrections=(*current.corrections, *record.corrections),
            )
        else:
            left_out = without(left_out_before(current, self._schema), record, self._schema)
        whole = replace(record, outputs=(*current.outputs, *record.outputs))
        base = replace(base, proof=proof_of(whole, left_out, self._schema))
        validation = None if current.outputs else detached.validated(directory)
        validation = passed_on(validation, detached.record, self._schema.rules)
        return self._copies.planned(history, base, parts, run, validation, kept=current.outputs)

    def _volume(self, output: MergeOutput) -> Volume:
        """The partition that a command names, else that of before, else the first that merges write to."""
        place = self._place
        fs, layout, namespace = place.fs, place.layout, place.table.namespace
        if self._partition is not None:
            return chosen_volume(fs, layout, namespace, self._partition)
        try:
            return chosen_volume(fs, layout, namespace, without_generation(output.internal))
        except TableNotFoundError:
            return chosen_volume(fs, layout, namespace, ensure_writable(fs, layout, namespace)[0])


def without(left_out: LeftOut, record: MergeRecord, schema: TableSchema) -> LeftOut:
    """What is left out once the rows of a record have come back. MergeError: they were not among it."""
    rows = record.rows
    if rows > left_out.rows:
        raise MergeError(
            "the record of the date has fewer rows as left out than were detached",
            where=f"{record.table} {record.value}",
            expected=f"{rows:,} rows that are left out, or more",
            found=f"{left_out.rows:,}",
            hint=f"run `sparkhaven verify {record.table}`, and report it: this is a bug. Nothing was changed",
        )
    if rows == left_out.rows:
        return LeftOut(0, left_out.identical)
    back = column_digests(record, schema.stored)
    less = {
        name: to_hex((from_hex(digest) - from_hex(back.get(name, "0"))) % MODULUS)
        for name, digest in left_out.digests.items()
    }
    rest = to_hex(add(from_hex(left_out.row_digest), -from_hex(row_content(record).digest)))
    return replace(left_out, rows=left_out.rows - rows, digests=less, row_digest=rest)
