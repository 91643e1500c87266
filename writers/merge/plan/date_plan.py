"""Merge planning: pins the streams, looks at what was merged before, and plans the merge of a date.

=====================================  =====================================================================
situation                              what is read, and where it goes
=====================================  =====================================================================
never merged                           all committed intraday rows; the writable partitions' own names
merged, nothing new                    nothing to do
merged, rows came since                those rows alone; one more partition ``<name>.s<generation>`` (supplement)
merged, ``rewrite``, or many supplements  intraday if it still has all merged rows, else history and the rows since;
                                       ``<name>.g<generation>``, replacing what was there
columns corrected, rows deleted        history and the rows since, unless ``discard_corrections``
=====================================  =====================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.errors import (
    MergeError,
    SchemaMismatchError,
    TableNotFoundError,
    TooEarlyError,
    ValidationFailedError,
)
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import check_partition
from sparkhaven.store.merges.history import DateHistory, in_columns, row_content
from sparkhaven.store.merges.merge_records import MergeRecord, merged_rows
from sparkhaven.store.merges.merge_run import MergePhase
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.case_twins import refuse_case_twins
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.model import TableSchema
from sparkhaven.store.volumes import require_volumes
from sparkhaven.writers.merge.date_result import MergeOutcome
from sparkhaven.writers.merge.plan.dedupe_options import NO_RULE, recorded_rule, rule_of
from sparkhaven.writers.merge.plan.dropped_columns import dropped_columns, joined_drops
from sparkhaven.writers.merge.plan.duplicates import find_duplicates
from sparkhaven.writers.merge.plan.merge_inputs import all_inputs, has_all, history_of, unmerged
from sparkhaven.writers.merge.plan.merge_pins import Pins, after_sync
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions, MergePlan
from sparkhaven.writers.merge.plan.merge_proof import add_left_out, add_proofs, left_out_before
from sparkhaven.writers.merge.plan.output_plan import Taken, plan_output
from sparkhaven.writers.merge.plan.partition_choice import Turns
from sparkhaven.writers.merge.plan.withdrawn_rows import withdrawn_rows

_EMPTY = "`sparkhaven stats` lists the dates. --allow-empty skips an empty one"


@dataclass(frozen=True, slots=True)
class PlannedMerge:
    """The plan for one date, None if there is nothing to write; ``history`` is what it had before.

    ``prepare``: what remains to be done of the plan once its record is stored and its staging empty. ``expected``: the
    digest that each column must have then, and ``row_digest`` that of the rows, all columns together. ``proof``: raises
    where the staged files, opened anew, have other rows than they must have.
    """

    outcome: MergeOutcome
    record: MergeRecord
    history: DateHistory
    plan: MergePlan | None = None
    prepare: Callable[[PlannedMerge, MergePlan], PlannedMerge] | None = None
    expected: Mapping[str, str] | None = None
    row_digest: str | None = None
    proof: Callable[[MergeRecord], None] | None = None

    def require_expected(self, record: MergeRecord) -> None:
        """ValidationFailedError: the checked merge has other rows, or a column another digest, than it must have."""
        digests = record.proof.digests_out if record.proof is not None else {}
        differing = [name for name, digest in (self.expected or {}).items() if digests.get(name) != digest]
        if differing:
            raise ValidationFailedError(
                "a column has other values than the generation before",
                where=f"{record.table} {record.value}",
                expected="equal digests of the columns that no option names, and those of the computed values",
                found=f"other digests in {', '.join(differing)}",
                hint="nothing was published. Run `sparkhaven verify --deep` and do it again",
                phase="check",
            )
        there = row_content(record).digest
        if self.row_digest is not None and there != self.row_digest:
            raise ValidationFailedError(
                "values stand in other rows than in the generation before",
                where=f"{record.table} {record.value}",
                expected=f"rows with digest {self.row_digest}, as they were read from the generation before",
                found=f"rows with digest {there} in the files that were written",
                hint="report it: this is a bug. Nothing was published",
                phase="check",
            )
        if self.proof is not None:
            self.proof(record)

    def combine(self, record: MergeRecord) -> MergeRecord:
        """A supplement's record also holds what the date had before: outputs and proof of all generations."""
        base = self.history.current
        if self.outcome is not MergeOutcome.SUPPLEMENT or base is None or self.plan is None:
            return record
        base = in_columns(base, self.plan.schema)  # its outputs stay as they are, and say by whose names
        if base.proof is None or record.proof is None:
            return record
        proof = add_proofs(base.proof, record.proof, self.plan.schema)
        return replace(record, outputs=(*base.outputs, *record.outputs), proof=proof)


def plan_merge(
    place: TablePlace,
    history: DateHistory,
    options: MergeOptions,
    pins: Pins,
    turns: Turns | None = None,
    *,
    dry_run: bool = False,
) -> PlannedMerge:
    """Plans the merge of a date after its ``history``. TableNotFoundError: the date has no rows (unless allowed).

    MergeError: history is ahead of its source. TooEarlyError: all rows of the date wait to be synced.
    RetryableStorageError: there is not enough space.
    """
    value, base = check_partition("partition value", history.value), history.current
    schema = merged_schema(place)
    locations = pins.locations(value)
    if options.discard_corrections:
        _require_intraday(place, base, locations)
        options = replace(options, rewrite=options.rewrite or bool(base and base.changed_by_command))
    merged = merged_rows(base)
    tails = unmerged(place, locations, merged)
    kept = base is not None and base.changed_by_command and not options.discard_corrections
    rule = rule_of(base, options.dedupe, schema)
    other_rule = (
        options.dedupe is not None and base is not None and rule != (in_columns(base, schema).run.dedupe or NO_RULE)
    )
    recorded = recorded_rule(base, options.dedupe, rule)
    options = replace(options, dedupe=recorded, rewrite=options.rewrite or other_rule)
    dropped = base is not None and not base.outputs and not locations
    if base is not None and not tails and not other_rule and (dropped or not options.rewrite):
        return PlannedMerge(MergeOutcome.NOTHING, base, history)
    if base is None and not locations:
        if waiting := pins.waiting(value):
            raise TooEarlyError(
                "the rows of this date are not synced yet",
                where=f"{place.table} {value}",
                expected="synced rows, which no power failure makes the source replay",
                found=f"{waiting:,} unsynced rows",
                hint=after_sync(place.table),
                phase="plan",
            )
        if options.fill_missing:
            plan, record = plan_output(place, schema, history, options, Taken((), "intraday", ()), dry_run=dry_run)
            return PlannedMerge(MergeOutcome.FILLED, record, history, plan)
        if not options.allow_empty:
            raise TableNotFoundError(
                "no committed rows to merge",
                where=f"{place.table} {value}",
                expected="intraday rows of this date",
                found="none",
                hint=_EMPTY,
                phase="plan",
            )
        return PlannedMerge(
            MergeOutcome.EMPTY, MergeRecord(str(place.table), value, 0, MergePhase.PLAN, (), ()), history
        )
    supplement = base is not None and not options.rewrite and base.run.supplements < options.max_supplements
    supplement = supplement and not rule.keys  # a new row may be the double of one that history has
    if supplement:
        sources, origin = tails, "intraday"
    elif base is None or (has_all(base, locations) and not rule.upsert and not kept):
        sources, origin = tails if base is None else unmerged(place, locations, {}), "intraday"
    else:
        require_volumes(place, base)
        sources, origin = [*history_of(place, schema, base), *tails], "history"
    drops = dropped_columns(place.fs, schema, value, sources)
    if base is not None and (supplement or origin == "history"):  # history has those rows without their columns
        drops = joined_drops(base.column_drops, drops)
    withdrawn = withdrawn_rows(place.fs, schema, sources)
    corrections = base.corrections if base is not None and kept else ()
    taken = Taken(tuple(sources), origin, all_inputs(base, locations), supplement, drops, withdrawn, corrections)
    if rule.keys and sources:
        taken = without_duplicates(place.fs, schema, taken, options)
    if base is not None and origin == "history":
        taken = replace(taken, left_out=add_left_out(left_out_before(base, schema), taken.left_out, schema))
    plan, record = plan_output(place, schema, history, options, taken, turns, dry_run=dry_run)
    return PlannedMerge(MergeOutcome.SUPPLEMENT if supplement else MergeOutcome.MERGED, record, history, plan)


def _require_intraday(
    place: TablePlace, base: MergeRecord | None, locations: Sequence[tuple[str, LocationState]]
) -> None:
    """MergeError: corrections cannot be taken back, as intraday no longer has the rows."""
    if base is not None and base.changed_by_command and not has_all(base, locations):
        column = base.corrections[-1].name if base.corrections else None
        raise MergeError(
            "corrections cannot be discarded",
            where=f"{place.table} {base.value}, merge {base.generation}",
            expected="all merged rows in intraday",
            found="rows that only history has",
            hint="restore the date from a snapshot. Deleted rows are in no other place"
            if column is None
            else f"compute the columns again by `sparkhaven rewrite-column {place.table} --dates {base.value} --set"
            f" {column}=EXPR`",
            phase="plan",
        )


def without_duplicates(fs: Fs, schema: TableSchema, taken: Taken, options: MergeOptions) -> Taken:
    """What is taken without the rows that the rule of the options leaves out. MergeError: they do not add up."""
    assert options.dedupe is not None  # noqa: S101
    duplicates = find_duplicates(fs, schema, taken.sources, options.dedupe, options.usable)
    sources = tuple(replace(source, kept=kept) for source, kept in zip(taken.sources, duplicates.kept, strict=True))
    rows, kept_rows = (sum(map(len, part)) for part in (taken.sources, sources))
    if rows != kept_rows + duplicates.left_out.rows:
        raise MergeError(
            "other rows were chosen than counted",
            where=schema.full_name,
            expected=f"{rows} rows, kept or left out",
            found=f"{kept_rows} and {duplicates.left_out.rows}",
            hint="report it: this is a bug. Nothing was written. --dedupe none merges all rows",
            phase="plan",
        )
    return replace(taken, sources=sources, left_out=add_left_out(taken.left_out, duplicates.left_out, schema))


def merged_schema(place: TablePlace) -> TableSchema:
    """The deployed schema of a table that can be merged. SchemaMismatchError: it cannot."""
    schema = load_deployed(place)
    if schema.partitioning is None:
        raise SchemaMismatchError(
            "table is not partitioned",
            where=str(place.table),
            expected="a Partitioning column",
            hint="keep the rows intraday, or make a new table with a Partitioning column",
        )
    if schema.extended is not None:
        tree = f"`sparkhaven read {place.table}` reads the table"
        refuse_case_twins(schema.full_name, schema.columns, f"readers of its {schema.extended} tree", tree)
    return schema
