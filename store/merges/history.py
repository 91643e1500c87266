"""The history of one date: all merge records of it, read once, and what a record says of all rows.

What a date has in history is the same where its rows are as many and their digests are equal: ``row_content``. Nothing
else decides it; digests of single columns say which column differs.

Dates that are being published: their locations may be in the location index, though their merge record is not there.

``<merges of the table>/.publishing`` has an empty directory for each such date. *Writer.* Under the table's lock: made
and synced before the index is written, removed once the record is stored. A killed merge leaves it; the next one that
publishes the date removes it. One that is left behind costs whoever opens the table a look at the records of the date.
*Reader.* Looks here after it has read the index.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from sparkhaven.store.digest import add, digest_nulls, from_hex, to_hex
from sparkhaven.store.merges.merge_records import InputKey, MergeOutput, MergeRecord, generations, load_record
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.model import Column, TableSchema


@dataclass(frozen=True, slots=True)
class DateHistory:
    """The records of a date by generation, complete or not.

    Under the table's lock nobody else changes them: a merge reads them once and goes on with ``after``.
    """

    value: str
    records: tuple[MergeRecord, ...] = ()

    @property
    def complete(self) -> tuple[MergeRecord, ...]:
        return tuple(record for record in self.records if record.complete)

    @property
    def current(self) -> MergeRecord | None:
        """The newest complete record, which decides what the date's history is; None before the first merge."""
        complete = self.complete
        return complete[-1] if complete else None

    @property
    def last(self) -> MergeRecord | None:
        return self.records[-1] if self.records else None

    @property
    def next_generation(self) -> int:
        """A number that no record has."""
        return max((record.generation for record in self.records), default=0) + 1

    @property
    def alive(self) -> frozenset[str]:
        """Internal partitions that have the date's history."""
        current = self.current
        return frozenset(output.internal for output in current.outputs) if current else frozenset()

    def after(self, *records: MergeRecord) -> DateHistory:
        """The history once these records are stored; each takes the place of one of its generation."""
        stored = {record.generation: record for record in (*self.records, *records)}
        return DateHistory(self.value, tuple(stored[generation] for generation in sorted(stored)))


def load_history(place: TablePlace, value: str) -> DateHistory:
    numbers = generations(place, value)
    return DateHistory(value, tuple(load_record(place, value, number) for number in numbers))


V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class RowContent:
    """Rows of any place, all columns together: how many, and their digest as 32 hex digits."""

    rows: int
    digest: str


def row_content(record: MergeRecord | None) -> RowContent:
    """The rows of a date in history; none without a record."""
    outputs = record.outputs if record is not None else ()
    digest = add(*(from_hex(output.row_digest) for output in outputs))
    return RowContent(sum(output.rows for output in outputs), to_hex(digest))


def has_digests_of(schema: TableSchema, digests: Mapping[str, str], version: int) -> bool:
    """Whether digests are of no column but those that are stored now, so that one of rows is of these too.

    ``version``: that of the schema whose names they have.
    """
    return set(renamed(digests, schema.names_at(version))) <= {column.name for column in schema.stored}


def keeps_rows(before: MergeRecord | None, after: MergeRecord, columns: Collection[int]) -> bool:
    """Whether a reader of ``before`` (None: of intraday alone) finds its rows, and no others, in ``after``.

    ``columns``: ids of those that it reads. Where rows were merged since, they are in ``after`` beside the locations
    of ``before``, or both records have all rows of their inputs as they were. In doubt it is False.
    """
    if any(drop.id in columns for drop in after.column_drops):
        return False
    old, new = _taken(before), _taken(after)
    came = {key: count - old.get(key, 0) for key, count in new.items()}
    if not old.keys() <= new.keys() or any(count < 0 for count in came.values()):
        return False
    if not any(came.values()):
        return before is not None and row_content(before) == row_content(after)
    if any(came[taken.key] and taken.epoch < 0 for taken in after.inputs):
        return False  # imported: no epoch has these rows
    if has_all_rows(after) and (before is None or has_all_rows(before)):
        return True
    return before is not None and _adds(before, after, sum(came.values()))


def takes_as_much(before: MergeRecord | None, after: MergeRecord) -> bool:
    """Whether two records of a date took in the same number of rows from each location; None: a date without one."""
    old, new = ({key: rows for key, rows in _taken(record).items() if rows} for record in (before, after))
    return old == new


def _taken(record: MergeRecord | None) -> dict[InputKey, int]:
    """Rows of each location that were merged, and not withdrawn before."""
    return {taken.key: taken.rows - taken.withdrawn for taken in record.inputs} if record is not None else {}


def has_all_rows(record: MergeRecord) -> bool:
    """Whether the outputs are the rows of the inputs: no rule has left some out, no command has changed any."""
    left_out = record.proof.left_out if record.proof is not None else None
    by_rule = left_out.rows - left_out.withdrawn if left_out is not None else 0
    return not record.changed_by_command and not by_rule and row_content(record).rows == sum(_taken(record).values())


def _adds(before: MergeRecord, after: MergeRecord, rows: int) -> bool:
    """Whether a record has the locations of an earlier one as they were, and so many rows in others beside them."""
    here, there = ({(o.internal, o.rows, o.row_digest) for o in record.outputs} for record in (before, after))
    same = here <= there and (before.corrections, before.deletions) == (after.corrections, after.deletions)
    return same and row_content(after).rows - row_content(before).rows == rows


def totals(record: MergeRecord | None) -> tuple[int, dict[str, str]]:
    """Rows of a date in history, and digests of the columns that all of its locations have; 0 without a record.

    Its outputs are ``of_now`` where columns were renamed.
    """
    outputs = record.outputs if record is not None else ()
    names = {name for output in outputs for name in output.digests}
    common = sorted(name for name in names if all(name in output.digests for output in outputs))
    digests = {name: to_hex(add(*(from_hex(output.digests[name]) for output in outputs))) for name in common}
    return sum(output.rows for output in outputs), digests


def column_digests(record: MergeRecord | None, columns: Collection[Column]) -> dict[str, str]:
    """The digest of each column in all rows of a date in history: null in a location that lacks the column."""
    digests = {}
    for column in columns:
        total = 0
        for output in record.outputs if record is not None else ():
            name = column.stem(output.named_by)
            known = from_hex(output.digests[name]) if name in output.digests else digest_nulls(column, output.rows)
            total = add(total, known)
        digests[column.name] = to_hex(total)
    return digests


def of_now(output: MergeOutput, schema: TableSchema) -> MergeOutput:
    """A location with its digests and statistics by the names of now; those of files stay, and ``named_by`` says whose.

    Such an output is looked at and never stored.
    """
    names = schema.names_at(output.named_by)
    if not names:
        return output
    return replace(output, digests=renamed(output.digests, names), stats=renamed(output.stats, names))


def outputs_of_now(record: MergeRecord, schema: TableSchema) -> MergeRecord:
    """The record with its outputs ``of_now``, to be looked at."""
    return replace(record, outputs=tuple(of_now(output, schema) for output in record.outputs))


def in_columns(record: MergeRecord, schema: TableSchema) -> MergeRecord:
    """The record as the schema has it: proof, order and rule by the names of now; outputs are as they were.

    The proof has every stored column, in all of its rows: one that the record does not know is null there.
    """
    names, proof, run = schema.names_at(record.schema_version), record.proof, record.run
    if names:
        sort = tuple(f"{names.get(name, name)}{rest}" for name, rest in map(_split_key, run.sort))
        run = replace(run, sort=sort, dedupe=None if run.dedupe is None else run.dedupe.renamed(names))
    record = replace(record, schema_version=schema.version, run=run)
    if proof is None:
        return record

    def whole(digests: Mapping[str, str], rows: int) -> dict[str, str]:
        known = renamed(digests, names)
        newer = (column for column in schema.stored if column.name not in known)
        return known | {column.name: to_hex(digest_nulls(column, rows)) for column in newer}

    left_out = proof.left_out
    if left_out.rows:
        left_out = replace(left_out, digests=whole(left_out.digests, left_out.rows))
    kept = whole(proof.digests_in, proof.rows_out), whole(proof.digests_out, proof.rows_out)
    return replace(record, proof=replace(proof, digests_in=kept[0], digests_out=kept[1], left_out=left_out))


def _split_key(text: str) -> tuple[str, str]:
    """A sort key as the name of its column and the rest: ``:desc``, or nothing."""
    name, colon, direction = text.partition(":")
    return name, colon + direction


def renamed(values: Mapping[str, V], names: Mapping[str, str]) -> dict[str, V]:
    """Values by the names of now; ``names``: those of then that differ -> those of now."""
    return {names.get(name, name): value for name, value in values.items()}


def _directory(place: TablePlace) -> Path:
    return place.merges / ".publishing"


def dates_in_publication(place: TablePlace) -> list[str]:
    """The partition values of dates whose records may be behind the index, sorted."""
    return place.fs.names(_directory(place))


def begin_publication(place: TablePlace, values: Iterable[str]) -> None:
    """From now on who opens the table looks at the records of these dates. The caller holds the lock of the table."""
    directory = _directory(place)
    for value in values:
        place.fs.mkdirs(directory / value)
    place.fs.sync_dirs([directory, directory.parent])


def end_publication(place: TablePlace, values: Iterable[str]) -> None:
    """The records of these dates count, and the index names their locations."""
    directory = _directory(place)
    for value in values:
        place.fs.rmdir(directory / value)
