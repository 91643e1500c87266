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

A merge may leave duplicates out: all but the first or last row of those with equal keys. Keys are read in passes, each
over those whose hash is in its share, so that memory is bounded. Keys are compared by value: null equals null, NaN
equals NaN, and the zeros are one. Only rows that have a double are read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store import next_steps
from sparkhaven.store.digest import add, digest_array, digest_rows, to_hex, value_hashes
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.errors import (
    MergeError,
    SchemaMismatchError,
    TableNotFoundError,
    TooEarlyError,
    ValidationFailedError,
)
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import check_partition, in_parquet
from sparkhaven.store.merges.history import DateHistory, in_columns, row_content
from sparkhaven.store.merges.merge_records import MergeRecord, merged_rows
from sparkhaven.store.merges.merge_run import LeftOut, MergePhase
from sparkhaven.store.native.rows import sorted_rows
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.column_file import ColumnFile, ParquetColumns, count_values, open_column, open_parquet
from sparkhaven.store.scan.selection import refuse_case_twins
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.model import Column, DedupeRule, TableSchema
from sparkhaven.store.types.row_ranges import Positions, RowRanges
from sparkhaven.store.volumes import require_volumes
from sparkhaven.writers.merge.date_result import MergeOutcome
from sparkhaven.writers.merge.plan.dropped_columns import dropped_columns, joined_drops
from sparkhaven.writers.merge.plan.merge_inputs import all_inputs, has_all, history_of, unmerged, withdrawn_rows
from sparkhaven.writers.merge.plan.merge_pins import Pins, after_sync
from sparkhaven.writers.merge.plan.merge_plan import NO_RULE, MergeOptions, MergePlan, recorded_rule, rule_of
from sparkhaven.writers.merge.plan.merge_proof import add_left_out, add_proofs, left_out_before
from sparkhaven.writers.merge.plan.output_plan import Taken, Turns, plan_output
from sparkhaven.writers.merge.sources.merge_source import SIZES, MergeSource

ROW_BYTES = 96  # of a row in a pass: codes, order and numbers, with copies while they are sorted


@dataclass(frozen=True, slots=True)
class Duplicates:
    """What is left out of sources: ``kept`` rows of each, None where that is all of them."""

    kept: tuple[RowRanges | None, ...]
    left_out: LeftOut


class _Rows:
    """The rows of all sources, numbered in their order."""

    def __init__(self, fs: Fs, sources: Sequence[MergeSource]) -> None:
        self.fs, self.sources = fs, sources
        self.firsts = np.concatenate(
            (np.zeros(1, np.int64), np.cumsum([len(source) for source in sources], dtype=np.int64))
        )
        self._opened: dict[tuple[int, str], ColumnFile] = {}
        self._parquet: dict[int, ParquetColumns] = {}

    def open(self, index: int, column: Column) -> ColumnFile:
        key = index, column.name
        if key not in self._opened:
            source = self.sources[index]
            sizes, named = {name: state.size for name, state in source.files.items()}, column.at(source.named_by)
            if not in_parquet(sizes):
                self._opened[key] = open_column(self.fs, source.directory, named, sizes, source.rows)
            else:
                if index not in self._parquet:
                    self._parquet[index] = open_parquet(self.fs, source.directory, sizes, source.rows)
                self._opened[key] = self._parquet[index].column(named)
        return self._opened[key]

    def blocks(self) -> Iterator[tuple[int, RowRanges, int]]:
        """Source, rows of its location that it keeps, and the number of the first of them."""
        for index, source in enumerate(self.sources):
            number = int(self.firsts[index])
            for part in source.rows_kept.steps(SIZES.rows) if len(source) else ():
                yield index, part, number
                number += part.rows

    def read(self, index: int, column: Column, rows: RowRanges) -> pa.Array:
        opened = self.open(index, column)
        return opened.read(rows.start, rows.stop) if len(rows) == 1 else opened.take(rows)

    def located(self, index: int, numbers: Positions) -> Positions:
        """The rows of a source's location that have these numbers."""
        source = self.sources[index]
        own: Positions = numbers - self.firsts[index]
        rows: Positions = own + source.start if source.kept is None else source.kept.positions[own]
        return rows

    def take(self, column: Column, numbers: Positions) -> pa.Array:
        """The values of some rows, by their numbers in ascending order."""
        parts = []
        for index in range(len(self.sources)):
            low, high = np.searchsorted(numbers, self.firsts[index : index + 2])
            if low < high:
                rows = self.located(index, numbers[low:high])
                parts.append(_plain(self.open(index, column).take(RowRanges.at(rows))))
        return pa.concat_arrays(parts)


def find_duplicates(
    fs: Fs, schema: TableSchema, sources: Sequence[MergeSource], rule: DedupeRule, memory: int
) -> Duplicates:
    """What the rule leaves out of sources that are in order; ``memory``: bytes. Raises what opening a column raises."""
    rows = _Rows(fs, sources)
    total = int(rows.firsts[-1])
    passes = max(1, -(-total * ROW_BYTES // memory))
    pairs = [_superseded(rows, schema, rule, number, passes) for number in range(passes)]
    dropped, winners = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    order = np.argsort(dropped)
    dropped, winners = dropped[order], winners[order]
    kept: list[RowRanges | None] = []
    for index, source in enumerate(sources):
        low, high = np.searchsorted(dropped, rows.firsts[index : index + 2])
        gone = RowRanges.at(rows.located(index, dropped[low:high]))
        left = gone.outside(source.start, source.stop)
        kept.append(left.intersection(source.rows_kept) if low < high else source.kept)
    return Duplicates(tuple(kept), _told(rows, schema, dropped, winners))


def _superseded(
    rows: _Rows, schema: TableSchema, rule: DedupeRule, share: int, shares: int
) -> tuple[Positions, Positions]:
    """The rows of a share of the keys that are left out, and for each the row that is kept in its place."""
    columns = [_column(schema, name) for name in rule.columns]
    parts: list[list[pa.Array]] = [[] for _ in columns]
    numbers: list[Positions] = []
    for index, part, number in rows.blocks():
        values = [_key(rows.read(index, column, part)) for column in columns]
        own = np.arange(number, number + part.rows)
        if shares > 1:
            hashes = np.zeros(len(own), np.uint64)
            for column, array in zip(columns[: len(rule.keys)], values, strict=False):
                hashes += value_hashes(column, array)
            mine = hashes % np.uint64(shares) == share
            own, values = own[mine], [array.filter(pa.array(mine)) for array in values]
        numbers.append(own)
        for column_parts, array in zip(parts, values, strict=True):
            column_parts.append(array)
    number_of = np.concatenate(numbers) if numbers else np.zeros(0, np.int64)
    if not len(number_of):
        return number_of, number_of
    arrays = [pa.chunked_array(part) for part in parts]
    groups = _groups(arrays[: len(rule.keys)])
    ranks = [_ranks(array) for array in arrays[len(rule.keys) :]]
    order = sorted_rows([groups.view(np.uint64), *ranks])  # which keeps the order of the rows where all else is equal
    groups, number_of = groups[order], number_of[order]
    starts = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(groups[1:] != groups[:-1]) + 1))
    lengths = np.diff(np.append(starts, len(groups)))
    winner = starts if rule.keep == "first" else starts + lengths - 1
    gone = np.ones(len(groups), np.bool_)
    gone[winner] = False
    return number_of[gone], np.repeat(number_of[winner], lengths)[gone]


def _groups(keys: Sequence[pa.ChunkedArray]) -> npt.NDArray[np.int64]:
    """A number for each row that equal keys have in common."""
    groups: npt.NDArray[np.int64] | None = None
    for values in keys:
        coded = values.combine_chunks().dictionary_encode()
        codes = pc.fill_null(coded.indices.cast(pa.int64()), len(coded.dictionary)).to_numpy(zero_copy_only=False)
        if groups is not None:
            _, codes = np.unique(groups * (len(coded.dictionary) + 1) + codes, return_inverse=True)
        groups = codes
    assert groups is not None  # noqa: S101  a rule has keys
    return groups


def _ranks(values: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Dense ranks, null first."""
    whole = values.combine_chunks()
    ranks: npt.NDArray[np.uint64] = pc.rank(whole, sort_keys="ascending", tiebreaker="dense").to_numpy().copy()
    ranks[np.asarray(whole.is_null())] = 0
    return ranks


def _plain(values: pa.Array) -> pa.Array:
    """Values without a dictionary."""
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _key(values: pa.Array) -> pa.Array:
    """Values of which equal ones have equal bits."""
    if pa.types.is_floating(values.type):
        values = pc.add(values, pa.scalar(0.0, values.type))
        return pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values)
    return _plain(values)


def _column(schema: TableSchema, name: str) -> Column:
    column = schema.column(name)
    assert column is not None, name  # noqa: S101  the rule was checked with this schema
    return column


def _told(rows: _Rows, schema: TableSchema, dropped: Positions, winners: Positions) -> LeftOut:
    """What the record says of the rows that are left out: their digests, and how many equal the row that is kept."""
    digests, identical = {column.name: 0 for column in schema.stored}, 0
    filled, row_digest = {column.id: 0 for column in schema.stored}, 0
    for first in range(0, len(dropped), SIZES.rows):
        gone, instead = dropped[first : first + SIZES.rows], winners[first : first + SIZES.rows]
        kept, of = np.unique(instead, return_inverse=True)
        hashes, others = np.zeros(len(gone), np.uint64), np.zeros(len(kept), np.uint64)
        for column in schema.stored:
            values = rows.take(column, gone)
            digests[column.name] = add(digests[column.name], digest_array(column, values, hashes))
            filled[column.id] += count_values(column, values)
            others += value_hashes(column, rows.take(column, kept))
        differing, row_digest = hashes - others[of], add(row_digest, digest_rows(hashes))
        identical += int(np.count_nonzero(differing == 0))
    if not len(dropped):
        return LeftOut()
    as_text = {name: to_hex(digest) for name, digest in digests.items()}
    return LeftOut(len(dropped), identical, as_text, filled=filled, row_digest=to_hex(row_digest))


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
        tree = next_steps.read(place.table)
        refuse_case_twins(schema.full_name, schema.columns, f"readers of its {schema.extended} tree", tree)
    return schema
