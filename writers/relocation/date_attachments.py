"""Attaches detached dates: verified as they lie, copied into the database, and published as a new generation.

The rows that the date has by now stay; those that are attached come beside them. The proof of the date counted them as
left out from the detachment on, and counts them as its rows again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from sparkhaven.store.digest.column_digest import MODULUS, add, from_hex, to_hex
from sparkhaven.store.errors import MergeError, SchemaMismatchError, SparkhavenError, TableNotFoundError
from sparkhaven.store.layout import without_generation
from sparkhaven.store.merges.detached import LOCATIONS, NAME, DetachedManifest, load_detached
from sparkhaven.store.merges.history import DateHistory, column_digests, load_history, row_content
from sparkhaven.store.merges.merge_proofs import LeftOut, Proof
from sparkhaven.store.merges.merge_records import (
    MergeOutput,
    MergeRecord,
    all_values,
    lock_table,
    newest,
    store_record,
    with_imported,
)
from sparkhaven.store.merges.merge_run import MergePhase, Relocated
from sparkhaven.store.merges.validations import decode_validation
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.seen_history import refuse_unproved, see_date
from sparkhaven.store.scan.standing import dated_partitions
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.merge.plan.dropped_columns import joined_drops
from sparkhaven.writers.merge.plan.merge_proof import left_out_before
from sparkhaven.writers.merge.publish.publish_phase import PublishPhase
from sparkhaven.writers.merge.publish.unfinished_copies import undo_copy, without_unfinished_copy
from sparkhaven.writers.merge.write.phases import Failure
from sparkhaven.writers.partitions import Volume, chosen_volume, ensure_writable
from sparkhaven.writers.relocation.copied_date import PlannedCopy, passed_on, plan_copy, require_space, stage_copy
from sparkhaven.writers.relocation.location_copies import require_output, require_sums


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
                    expected=f"detachment {part.id}, {part.rows:,} rows",
                    found="no manifest, or that of another part",
                    hint=f"restore it from a copy, then `sparkhaven dates attach {place.table} {path}`",
                )
                yield value, Failure(error)


@dataclass(frozen=True, slots=True)
class AttachedDate:
    """A date that was attached, or would be. ``generation``: that of the record; 0 where it was attached before."""

    value: str
    path: Path
    rows: int
    size: int
    generation: int


def detached_below(place: TablePlace, directory: Path) -> list[Path]:
    """The detached dates of a table in a directory: itself, or those in it, or in its directory of the table.

    TableNotFoundError: there is none.
    """
    fs = place.fs
    if fs.stat(directory / NAME) is not None:
        return [directory]
    for base in (directory, directory / str(place.table)):
        dates = [base / name for name in fs.names(base) if fs.stat(base / name / NAME) is not None]
        if dates:
            return dates
    load_detached(fs, directory)  # raises
    raise AssertionError("unreachable")


def attach_dates(
    place: TablePlace,
    directories: list[Path],
    *,
    clock: Callable[[], float],
    partition: str | None = None,
    dry_run: bool = False,
    on_copied: Callable[[str, int], object] = lambda value, size: None,
) -> Iterator[AttachedDate | Failure]:
    """Attaches detached dates, one result each; a failed one does not stop the others. ``dry_run`` verifies them.

    ``partition``: the storage partition for all; default: those that they came from, where there are such. Files stay
    in the directories. SchemaMismatchError: another table, or columns that the schema does not have. MergeError: the
    date was not detached from this database, or has come back. CorruptFileError, ValidationFailedError: damaged.
    """
    attaching = _Attaching(place, clock, partition, on_copied)
    if dry_run:
        yield from (attaching.date(directory, dry_run=True) for directory in directories)
        return
    with lock_table(place):
        for directory in directories:
            yield attaching.date(directory, dry_run=False)


class _Attaching:
    def __init__(
        self,
        place: TablePlace,
        clock: Callable[[], float],
        partition: str | None,
        on_copied: Callable[[str, int], object],
    ) -> None:
        self._place, self._clock, self._partition, self._on_copied = place, clock, partition, on_copied
        self._schema = load_deployed(place)
        self._publishing = PublishPhase(place, clock)

    def date(self, directory: Path, *, dry_run: bool) -> AttachedDate | Failure:
        place = self._place
        try:
            manifest = load_detached(place.fs, directory)
            self._require_table(directory, manifest)
            value = manifest.record.value
            history = load_history(place, value)
            if not dry_run:
                history = without_unfinished_copy(place, self._publishing.tidied(history))
            refuse_unproved(place, [see_date(place, value, history.current, dated_partitions(place))])
            last = history.last
            if last is not None and last.run.relocated == Relocated("attach", manifest.id):
                if last.complete:
                    return AttachedDate(value, directory, manifest.rows, 0, 0)
                if last.phase is MergePhase.CHECK and not dry_run:
                    return self._published(directory, manifest, history, last)
            current = self._require_detached(directory, manifest, history)
            self._verify(directory, manifest)
            planned = self._planned(directory, manifest, history, current)
            (error,) = require_space([planned], link=True)
            if error is not None:
                return Failure(error)
            if dry_run:
                return AttachedDate(value, directory, manifest.rows, planned.size, planned.record.generation)
            record = stage_copy(planned, self._schema, lambda n: self._on_copied(value, n), link=True)
            try:
                store_record(place, record)
            except (SparkhavenError, OSError):
                undo_copy(place, record)
                raise
            return self._published(directory, manifest, history.after(record), record)
        except (SparkhavenError, OSError) as error:
            return Failure(error)

    def _published(
        self, directory: Path, manifest: DetachedManifest, history: DateHistory, record: MergeRecord
    ) -> AttachedDate | Failure:
        (closed,) = self._publishing.close([history])
        if isinstance(closed, Failure):
            return closed
        return AttachedDate(record.value, directory, manifest.rows, manifest.size, record.generation)

    def _require_table(self, directory: Path, manifest: DetachedManifest) -> None:
        table = str(self._place.table)
        if manifest.record.table != table:
            raise SchemaMismatchError(
                "date of another table",
                where=directory,
                expected=table,
                found=manifest.record.table,
                hint=f"sparkhaven dates attach {manifest.record.table} {directory}",
            )
        if manifest.record.schema_version > self._schema.version:
            raise SchemaMismatchError(
                "date was merged by a newer schema than is deployed",
                where=directory,
                expected=f"version {self._schema.version} at most",
                found=f"version {manifest.record.schema_version}",
                hint="deploy the newer schema first, with `sparkhaven schema deploy FILE`",
            )
        columns = {column.id: column for column in (*self._schema.columns, *self._schema.retired)}
        for number, name, kind in manifest.columns:
            column = columns.get(number)
            names = (column.name, *column.labels) if column is not None else ()
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

    def _require_detached(self, directory: Path, manifest: DetachedManifest, history: DateHistory) -> MergeRecord:
        """The newest record of the date, which names the manifest among what was detached."""
        where, current = f"{self._place.table} {history.value}", history.current
        if current is None or manifest.id not in {part.id for part in current.run.detached}:
            back = any(manifest.id in {part.id for part in record.run.attached} for record in history.complete)
            raise MergeError(
                "date was attached again already" if back else "date was not detached from this database",
                where=where,
                expected=f"detachment {manifest.id}, which {directory / NAME} names",
                found=", ".join(part.id for part in current.run.detached) or "none"
                if current is not None
                else "no merge",
                hint="remove the directory, if it is not needed as a copy"
                if back
                else f"restore the snapshot that has it as detached, or import it: `sparkhaven import"
                f" {self._place.table} --help`",
            )
        if history.last is not current:
            raise MergeError(
                "a merge of the date is unfinished",
                where=where,
                expected=f"merge {current.generation} as the last one",
                found=f"merge {history.last.generation if history.last else 0}",
                hint=f"sparkhaven merge {self._place.table} --dates {history.value}",
            )
        return current

    def _verify(self, directory: Path, manifest: DetachedManifest) -> None:
        """Reads all files of the date."""
        place = self._place
        require_sums(place.fs, directory / LOCATIONS, manifest.files)
        for output in manifest.record.outputs:
            below = directory / LOCATIONS / output.internal
            require_output(place.fs, self._schema, manifest.record.value, below, output)

    def _planned(
        self, directory: Path, manifest: DetachedManifest, history: DateHistory, current: MergeRecord
    ) -> PlannedCopy:
        record = manifest.record
        parts = [(directory / LOCATIONS / output.internal, output, self._volume(output)) for output in record.outputs]
        back = next(part for part in current.run.detached if part.id == manifest.id)
        stays = current if current.outputs else record
        run = replace(
            stays.run,
            stays_in=self._partition or stays.run.stays_in,
            relocated=Relocated("attach", manifest.id),
            detached=tuple(part for part in current.run.detached if part is not back),
            attached=(*current.run.attached, replace(back, replaced=False)),
            supplements=current.run.supplements + 1 if current.outputs else record.run.supplements,
        )
        left_out = current.proof.left_out if current.proof is not None else LeftOut()
        base = replace(
            current,
            replaces=(),
            schema_version=max(record.schema_version, current.schema_version if current.outputs else 0),
        )
        if back.replaced:  # no merge has counted them since
            base = replace(
                base,
                inputs=with_imported(current.inputs, manifest.rows),
                column_drops=joined_drops(current.column_drops, record.column_drops),
                corrections=(*current.corrections, *record.corrections),
            )
        else:
            left_out = without(left_out_before(current, self._schema), record, self._schema)
        whole = replace(record, outputs=(*current.outputs, *record.outputs))
        rows, digests = sum(output.rows for output in whole.outputs), column_digests(whole, self._schema.stored)
        base = replace(base, proof=Proof(rows + left_out.rows, rows, digests, digests, left_out))
        validation = None
        if manifest.validation is not None and not current.outputs:
            validation = passed_on(decode_validation(manifest.validation, directory), record, self._schema.rules)
        now_ms = int(self._clock() * 1000)
        return plan_copy(
            self._place, history, base, parts, run, time_ms=now_ms, kept=current.outputs, validation=validation
        )

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
    rows = sum(output.rows for output in record.outputs)
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
