"""Deletes the rows that match a condition, from intraday and from history.

Rows of intraday are withdrawn, by an epoch of each stream that has some. Then each date of history that has some is
merged with itself, without them. A run that is killed has done some of these steps, each as a whole. The same command
does the others.

The proof of a date: a scan of its history counts the rows that match, and finds where they lie. Then a reader opens the
staged files anew, scans them, and finds none. There are as many rows fewer as were counted, each column has the digest
of before less that of the rows that went, and the rows have the digest of those that stay, as a reader reads them from
the generation before. Statistics and indexes are not asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.pinned_table import PinnedTable, matching_rows
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store import next_steps
from sparkhaven.store.digest import add, from_hex, to_hex
from sparkhaven.store.epochs.undo import Withdrawal
from sparkhaven.store.errors import SnapshotMovedError, SparkhavenError, ValidationFailedError
from sparkhaven.store.expressions.predicate.expression import Predicate
from sparkhaven.store.merges.history import DateHistory, column_digests, in_columns
from sparkhaven.store.merges.merge_records import MergeRecord, newest
from sparkhaven.store.merges.merge_run import MergePhase, RowDeletion
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.row_ranges import NO_ROWS, RowRanges
from sparkhaven.store.volumes import require_volumes
from sparkhaven.writers.merge.date_merges import DateMerges
from sparkhaven.writers.merge.date_result import MergeOutcome
from sparkhaven.writers.merge.plan.date_plan import PlannedMerge, merged_schema
from sparkhaven.writers.merge.plan.dropped_columns import dropped_columns, joined_drops
from sparkhaven.writers.merge.plan.merge_inputs import history_of, kept_rows_digest, withdrawn_rows
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions, MergePlan
from sparkhaven.writers.merge.plan.merge_proof import add_left_out, left_out_before
from sparkhaven.writers.merge.plan.output_plan import Taken, Turns, plan_output
from sparkhaven.writers.merge.publish.staged_locations import staged_slices
from sparkhaven.writers.removal.row_removal import MatchingRows, OpenLog, withdraw_rows


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """What a run has deleted, with proof, and the rows that matched when it began.

    ``withdrawn``: rows of intraday by stream, and ``epochs`` the epoch that each went by. ``history``: the deletion
    from each date of history. ``failed``: dates whose history is as it was.
    """

    matching: MatchingRows
    withdrawn: dict[str, Withdrawal]
    epochs: dict[str, int]
    history: dict[str, RowDeletion]
    failed: dict[str, SparkhavenError | OSError]

    @property
    def rows(self) -> int:
        return sum(self.of_dates().values())

    def of_dates(self) -> dict[str, int]:
        """The number of deleted rows of each date, in order."""
        counts = {value: deletion.rows for value, deletion in self.history.items()}
        for part in (part for withdrawal in self.withdrawn.values() for part in withdrawal.locations):
            counts[part.key.value] = counts.get(part.key.value, 0) + part.rows.rows
        return dict(sorted(counts.items()))


def delete_rows(merges: DateMerges, where: str, dates: Sequence[str] | None, open_log: OpenLog) -> DeletedRows:
    """Deletes the rows that match. A date whose history cannot be written again does not stop the others.

    ``merges`` are those of the table, by which history is written. LockLostError: a merge or removal is running, or a
    stream that has rows that match; nothing was done. Raises what ``find_rows`` raises.
    """
    place, planner = merges.place, DeletionPlanner(where)
    withdrawn = withdraw_rows(place, where, dates, open_log)
    values = [value for value in withdrawn.matching.of_dates() if newest(place, value) is not None]
    deleted: dict[str, RowDeletion] = {}
    failed: dict[str, SparkhavenError | OSError] = {}
    left = [*values]
    try:
        for result in merges.with_planner(planner).locked(values) if values else ():
            left.remove(result.value)
            if result.error is not None:
                failed[result.value] = result.error
                continue
            record = newest(place, result.value)
            if record is not None and planner.ends_with(place, record) and result.outcome is not MergeOutcome.NOTHING:
                deleted[result.value] = record.deletions[-1]
    except (SparkhavenError, OSError) as error:
        if not (withdrawn.epochs or deleted):
            raise
        failed |= dict.fromkeys(left, error)  # what is done is told beside it
    done = withdrawn.rows, withdrawn.epochs, dict(sorted(deleted.items()))
    return DeletedRows(withdrawn.matching, *done, failed)


class DeletionPlanner:
    """Plans merges of history with itself that leave out the rows that match ``where``.

    Rows that wait in intraday stay for the next merge, so the inputs of the record stay as they were.
    """

    def __init__(self, where: str) -> None:
        self._where = where

    def ends_with(self, place: TablePlace, record: MergeRecord) -> bool:
        """Whether a killed merge that is published now was this deletion, of the columns that it names now."""
        last = record.deletions[-1] if record.deletions else None
        if last is None or (last.where, last.generation) != (self._where, record.generation):
            return False
        _, predicate = self._opened(place)
        return not merged_schema(place).moved_since(record.schema_version, predicate.columns)

    def plan(
        self, place: TablePlace, history: DateHistory, options: MergeOptions, pins: Pins, turns: Turns, *, dry_run: bool
    ) -> PlannedMerge:
        """Nothing to do where history has no row that matches. SnapshotMovedError: readers see an older generation."""
        base, schema = history.current, merged_schema(place)
        if base is None:
            nothing = MergeRecord(str(place.table), history.value, 0, MergePhase.PLAN, (), ())
            return PlannedMerge(MergeOutcome.NOTHING, nothing, history)
        gone = self._matching(place, base)
        if not gone:
            return PlannedMerge(MergeOutcome.NOTHING, base, history)
        require_volumes(place, base)
        sources = history_of(place, schema, base)
        drops = joined_drops(base.column_drops, dropped_columns(place.fs, schema, history.value, sources))
        left = tuple(
            replace(source, kept=gone[source.internal].outside(source.start, source.stop))
            if source.internal in gone
            else source
            for source in sources
        )
        deleted = withdrawn_rows(place.fs, schema, left)
        before = left_out_before(base, schema)
        taken = Taken(left, "history", base.inputs, False, drops, before, base.corrections)
        options = replace(options, rewrite=True, dedupe=in_columns(base, schema).run.dedupe)
        plan, record = plan_output(place, schema, history, options, taken, turns, dry_run=dry_run)
        told = RowDeletion(self._where, record.generation, deleted.rows)
        plan = replace(plan, left_out=add_left_out(before, replace(deleted, deletions=(told,)), schema))
        whole = column_digests(base, schema.stored)
        expected = {name: _less(digest, deleted.digests[name]) for name, digest in whole.items()}
        counted = sum(rows.rows for rows in gone.values())
        rows = base.rows - counted

        def prove(checked: MergeRecord) -> None:
            self._require_gone(place, plan, checked, rows, counted)

        kept = None if dry_run else kept_rows_digest(place.fs, schema, left)
        return PlannedMerge(
            MergeOutcome.REWRITTEN, record, history, plan, expected=expected, row_digest=kept, proof=prove
        )

    def _opened(self, place: TablePlace) -> tuple[PinnedTable, Predicate]:
        """A reader that knows nothing of what was read before."""
        opened = pinned_of(open_table(place.layout.root, str(place.table), fs=place.fs))
        predicate = opened.predicate(self._where)
        assert predicate is not None  # noqa: S101  the rows of intraday were looked for with it
        return opened, predicate

    def _require_gone(self, place: TablePlace, plan: MergePlan, checked: MergeRecord, rows: int, counted: int) -> None:
        """ValidationFailedError: the staged files have a row that matches, or went by another number than counted."""
        opened, predicate = self._opened(place)
        slices = staged_slices(plan, checked)
        left = sum(matching.rows for _, matching in matching_rows(opened, slices, predicate))
        there = checked.rows
        told = sum(deletion.rows for deletion in checked.deletions if deletion.generation == checked.generation)
        if (left, there, told) != (0, rows, counted):
            raise ValidationFailedError(
                "other rows were left out than match",
                where=f"{place.table} {plan.value}",
                expected=f"{rows} rows, none of which matches, and {counted} left out",
                found=f"{there} rows, of which {left} match, and {told} left out",
                hint="report it: this is a bug. Nothing was published",
                phase="check",
            )

    def _matching(self, place: TablePlace, base: MergeRecord) -> Mapping[str, RowRanges]:
        """The rows of each location of history that match, as readers see them."""
        opened, predicate = self._opened(place)
        plan = opened.plan(dates=[base.value], tier="history")
        gone: dict[str, RowRanges] = {}
        for slice_, rows in matching_rows(opened, plan.slices, predicate):
            gone[slice_.key.internal] = gone.get(slice_.key.internal, NO_ROWS).union(rows)
        read = [record.generation for record in plan.records]
        if read != [base.generation]:
            raise SnapshotMovedError(
                "readers see another generation of the date than the newest",
                where=f"{place.table} {base.value}",
                expected=f"merge {base.generation}",
                found=f"merge {read[0] if read else 0}",
                hint=next_steps.merge_again(place.table, base.value),
                phase="plan",
            )
        return gone


def _less(digest: str, gone: str) -> str:
    return to_hex(add(from_hex(digest), -from_hex(gone)))
