"""Attaches detached dates: verified as they lie, copied into the database, and published as a new generation.

The rows that the date has by now stay; those that are attached come beside them. The proof of the date counted them as
left out from the detachment on, and counts them as its rows again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from sparkhaven.store.digest.column_digest import MODULUS, add, from_hex, to_hex
from sparkhaven.store.errors import MergeError, SchemaMismatchError, SparkhavenError, TableNotFoundError, counted
from sparkhaven.store.format.manifest import DETACHED
from sparkhaven.store.layout import without_generation
from sparkhaven.store.merges.history import DateHistory, column_digests, in_columns, load_history, row_content
from sparkhaven.store.merges.merge_records import (
    MergeOutput,
    MergeRecord,
    all_values,
    lock_table,
    newest,
    with_imported,
)
from sparkhaven.store.merges.merge_run import LeftOut, MergePhase, Proof, Relocated
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.seen_history import refuse_unproved, see_date
from sparkhaven.store.scan.standing import dated_partitions
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.merge.plan.dropped_columns import joined_drops
from sparkhaven.writers.merge.plan.merge_proof import left_out_before
from sparkhaven.writers.merge.write.phases import Failure
from sparkhaven.writers.partitions import Volume, chosen_volume, ensure_writable
from sparkhaven.writers.transfer.date_copies import DateCopies, PlannedCopy, RelocatedDate, passed_on, unfinished
from sparkhaven.writers.transfer.detach import LOCATIONS, DetachedDate, load_detached


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
    place: TablePlace,
    directories: list[Path],
    *,
    clock: Callable[[], float],
    partition: str | None = None,
    dry_run: bool = False,
    on_progress: Callable[[str], object] = lambda _: None,
) -> Iterator[RelocatedDate | Failure]:
    """Attaches detached dates, one result each; a failed one does not stop the others. ``dry_run`` verifies them.

    ``partition``: the storage partition for all; default: those that they came from, where there are such. Files stay
    in the directories. SchemaMismatchError: another table, or columns that the schema does not have. MergeError: the
    date was not detached from this database, or has come back. CorruptFileError, ValidationFailedError: damaged.
    """
    attaching = _Attaching(DateCopies(place, clock, on_progress, link=True), partition)
    if dry_run:
        yield from (attaching.date(directory, dry_run=True) for directory in directories)
        return
    with lock_table(place):
        for directory in directories:
            yield attaching.date(directory, dry_run=False)


class _Attaching:
    def __init__(self, copies: DateCopies, partition: str | None) -> None:
        self._copies, self._place, self._schema = copies, copies.place, copies.schema
        self._partition = partition

    def date(self, directory: Path, *, dry_run: bool) -> RelocatedDate | Failure:
        place, copies = self._place, self._copies
        try:
            detached = load_detached(place.fs, directory)
            self._require_table(directory, detached)
            value = detached.record.value
            history = copies.tidied(load_history(place, value), dry_run=dry_run)
            refuse_unproved(place, [see_date(place, value, history.current, dated_partitions(place))])
            last = history.last
            if last is not None and last.run.relocated == Relocated("attach", detached.id):
                if last.complete:
                    return RelocatedDate(value, detached.rows, 0, 0, directory)
                if last.phase is MergePhase.CHECK and not dry_run:
                    done = RelocatedDate(value, detached.rows, detached.size, last.generation, directory)
                    return copies.closed(history) or done
            current = self._require_detached(directory, detached, history)
            detached.verify(place.fs, self._schema, directory)
            planned = self._planned(directory, detached, history, current)
            (error,) = copies.space_errors([planned])
            if error is not None:
                return Failure(error)
            record = planned.record if dry_run else copies.run([planned])[value]
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
            raise unfinished(self._place, history, current)
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
        rows, digests = sum(output.rows for output in whole.outputs), column_digests(whole, self._schema.stored)
        base = replace(base, proof=Proof(rows + left_out.rows, rows, digests, digests, left_out))
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
