"""Whether history has every column of the intraday rows that it holds, whatever the schema says by now.

The digests of a merge cover the columns that it wrote. A column of a source that some output lacks is counted instead:
history, the drops that a command declared, and rows that were left out while the column was stored, must have all its
values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.errors import ValidationFailedError
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.column_corrections import more_values
from sparkhaven.store.merges.merge_records import MergeOutput, MergeRecord
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.filled_columns import filled
from sparkhaven.store.types.model import Column, TableSchema


@dataclass(frozen=True, slots=True)
class ColumnCount:
    """Values of a column in intraday, in history, and dropped by a command or with rows that were left out.

    ``id`` None: in no schema.
    """

    name: str
    id: int | None
    intraday: int
    history: int
    dropped: int

    @property
    def lost(self) -> int:
        return max(0, self.intraday - self.history - self.dropped)


def uncovered_columns(
    place: TablePlace, schema: TableSchema, record: MergeRecord, locations: Iterable[tuple[str, LocationState]]
) -> Iterator[ColumnCount]:
    """The columns with values in merged rows that not every output of the merge has.

    ``locations``: the date's, with their streams. Rows that came after the merge are not counted, nor truncated ones.
    """
    merged = {source.key: source.rows for source in record.inputs}
    every = (*schema.retired, *schema.stored)
    stems: dict[int, dict[str, Column]] = {}
    outputs = [output for output in record.outputs if output.rows]
    counts: dict[int | str, int] = {}
    for stream, location in locations:
        columns = stems.setdefault(location.named_by, {})
        if not columns:
            columns |= {column.stem(location.named_by): column for column in every}
        rows = min(location.rows, merged.get((stream, location.key.internal, location.since), 0))
        for name in location.files if rows and not location.truncated else ():
            stem, dot, suffix = name.rpartition(".")
            column = columns.get(stem)
            if f"{dot}{suffix}" != ".dat" or (column is not None and _covered(column, outputs)):
                continue
            if column is None:
                counts[stem] = counts.get(stem, 0) + rows
                continue
            directory = place.intraday_location(location.key)
            among = 0, rows, location.rows
            named = column.at(location.named_by)
            count = filled(place.fs, directory, named, location.files, location.stats.get(named.name, ()), among)
            counts[column.id] = counts.get(column.id, 0) + count
    by_id = {column.id: column for column in every}
    drops = {drop.id: drop.rows for drop in record.column_drops}
    left_out = record.proof.left_out.filled if record.proof is not None else {}
    for number, count in counts.items():
        if not count:
            continue
        if isinstance(number, str):
            yield ColumnCount(number, None, count, 0, 0)
            continue
        column, kept = by_id[number], 0
        for output in outputs:
            directory = place.history_location(LocationKey(output.internal, record.value))
            named, among = column.at(output.named_by), (0, output.rows, output.rows)
            kept += filled(place.fs, directory, named, output.files, output.stats.get(named.name, ()), among)
        dropped = drops.get(number, 0) + left_out.get(number, 0)
        dropped -= more_values(record.corrections, number)  # emptied or filled by command
        yield ColumnCount(column.name, number, count, kept, dropped)


def require_columns(counts: Iterable[ColumnCount], schema: TableSchema, value: str) -> None:
    """ValidationFailedError: removing intraday would remove values that nobody dropped."""
    lost = [count for count in counts if count.lost]
    if not lost:
        return
    table = schema.full_name
    drops = " ".join(f"--drop {count.name}" for count in lost)
    raise ValidationFailedError(
        "history lacks columns that intraday has",
        where=f"{table} {value}",
        expected="every value of every column in history, or dropped by a command",
        found=", ".join(f"{count.name}: {count.lost:,} values" for count in lost),
        hint=f"to keep the columns, restore a version that `sparkhaven schema history {table}` lists, by schema deploy"
        f" --restore. To lose them, run `sparkhaven schema deploy {table} {drops}`. Then run `sparkhaven merge {table}"
        f" --dates {value} --rewrite`",
        phase="prove",
    )


def _covered(column: Column, outputs: Iterable[MergeOutput]) -> bool:
    return all(column.stem(output.named_by) in output.digests for output in outputs)
