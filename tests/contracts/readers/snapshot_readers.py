"""The contract of a reader: of one snapshot each of them shows the same rows, with every value as it was written.

The table has every stored type, dates in history, in both tiers and intraday, several sources, a column that was
renamed and one that was added, an epoch that was rolled back, and epochs in the middle that were undone: of a date in
both tiers, of one that is intraday, and the first and last rows of a location.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.undo import plan_undo
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.store.schema.deployed.schema_changes import Consent
from sparkhaven.testing import make_table
from sparkhaven.writers.partitions import add_partition
from tests.support.streams.stream_logs import open_stream_log
from tests.support.writers.merge_cases import ARROW, DAY, SCHEMA, TABLE, as_table, comparable, random_row
from tests.support.writers.merge_runs import FS, merge

NAME = str(TABLE)
NEXT, LAST, GONE = "2024-03-06", "2024-03-07", "2024-03-08"
RENAMED, ADDED = "Small", "Later"
NAMES = {(RENAMED if name == "B" else name): name for name in ARROW}
TYPES = {name: ARROW[old] for name, old in NAMES.items()} | {ADDED: pa.int32()}
ALTERED = SCHEMA.replace(b'name="B"', b'name="Small"').replace(
    b"</Table>", b'<Column name="Later" dataType="int"/></Table>'
)
COLUMNS = ["Date", *TYPES]
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Snapshot:
    """A root, and the rows that readers of its table are to show."""

    root: Path
    rows: list[dict[str, Any]]

    def of(self, *dates: str) -> list[Row]:
        """The rows of these dates, or all."""
        return in_order([row[name] for name in COLUMNS] for row in self.rows if not dates or row["Date"] in dates)


def in_order(rows: Iterable[Iterable[Any]]) -> list[Row]:
    """Rows that compare value by value: NaN equals itself, and no sign of a zero is lost."""
    return sorted((tuple(comparable(value) for value in row) for row in rows), key=repr)


def rows_of(table: pa.Table) -> list[Row]:
    """Rows of an Arrow table, whatever forms of its types a reader has: instants as nanoseconds."""
    columns = []
    for name in COLUMNS:
        column = table[name]
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ns", "UTC")).cast(pa.int64())
        columns.append(column.to_pylist())
    return in_order(zip(*columns, strict=True))


class Written:
    """Writes rows, each once, and keeps what they are."""

    def __init__(self, root: Path) -> None:
        self.root, self.rows, self._chance = root, list[dict[str, Any]](), random.Random(7)
        self.wrong = list[int]()

    def put(self, date: str, source: str, count: int, *, altered: bool = False) -> None:
        """Random rows of one location as an epoch; ``altered``: by the schema as it is after its change."""
        rows = [random_row(self._chance) for _ in range(count)]
        later = [None, *range(1, count)] if altered else [None] * count
        table = as_table(rows)
        if altered:
            table = table.rename_columns([*NAMES]).append_column(ADDED, pa.array(later, pa.int32()))
        make_table(self.root, NAME, table, schema=None if self.rows else SCHEMA, date=date, source=source)
        for row, value in zip(rows, later, strict=True):
            self.rows.append({**row, "Date": date, RENAMED: row["B"], ADDED: value})

    def put_wrong(self, date: str, source: str, count: int, *, altered: bool = False) -> None:
        """Rows of an epoch that is to be undone."""
        before = list(self.rows)
        self.put(date, source, count, altered=altered)
        self.rows = before
        self.wrong.append(load_stream(StreamPlace(FS, Layout(self.root), TABLE, "test")).epoch)


def make_snapshot(root: Path) -> Snapshot:
    """Two merged dates, one of them with late rows, and one that is intraday; then a change of the schema."""
    written, layout = Written(root), Layout(root)
    for date, source, count in ((DAY, "a", 20), (DAY, "b", 11), (NEXT, "a", 9), (DAY, "a", 5)):
        written.put(date, source, count)
    for partition in ("0", "1"):
        add_partition(FS, layout, TABLE.namespace, partition)
    merge(layout, DAY, NEXT)
    written.put(DAY, "b", 6)
    written.put(LAST, "a", 7)
    written.put_wrong(DAY, "b", 3)
    written.put_wrong(LAST, "a", 4)
    written.put_wrong(LAST, "w", 5)
    deploy(FS, layout, ALTERED, consent=Consent(rename=(("B", RENAMED),)))
    written.put(DAY, "c", 4, altered=True)
    written.put(LAST, "a", 8, altered=True)
    written.put(LAST, "w", 2, altered=True)
    written.put_wrong(LAST, "w", 2, altered=True)
    written.put_wrong(GONE, "y", 2, altered=True)
    with open_stream_log(StreamPlace(FS, layout, TABLE, "test"), None) as log:
        for epoch in written.wrong:
            log.withdraw(partial(plan_undo, StreamPlace(FS, layout, TABLE, "test"), [epoch]))
    kept = list(written.rows)
    written.put(LAST, "a", 3, altered=True)
    written.put(GONE, "z", 3, altered=True)
    with open_stream_log(StreamPlace(FS, layout, TABLE, "test"), None) as log:
        log.rollback(log.state.epoch - 2)
    return Snapshot(root, kept)


class SnapshotReaderContract(ABC):
    """Clauses for every reader. ``snapshot`` is a fixture of ``tests/conftest``: one table for a process."""

    @abstractmethod
    def read(self, root: Path) -> pa.Table:
        """The whole table by the reader: Date and all stored columns, in any order of rows and columns."""

    @abstractmethod
    def read_date(self, root: Path, date: str) -> pa.Table:
        """The rows of one date, chosen by the reader."""

    @abstractmethod
    def count(self, root: Path) -> int:
        """The number of rows, as the reader counts them."""

    def test_every_value_of_every_row_twice(self, snapshot: Snapshot) -> None:
        assert len(snapshot.rows) == 72
        for _ in range(2):
            assert rows_of(self.read(snapshot.root)) == snapshot.of()

    @pytest.mark.parametrize("date", [DAY, NEXT, LAST])
    def test_dates_in_history_in_both_tiers_and_intraday(self, snapshot: Snapshot, date: str) -> None:
        expected = snapshot.of(date)
        assert expected and rows_of(self.read_date(snapshot.root, date)) == expected

    def test_no_row_and_no_date_of_epochs_that_were_rolled_back(self, snapshot: Snapshot) -> None:
        assert self.count(snapshot.root) == len(snapshot.rows)
        assert set(self.read(snapshot.root)["Date"].to_pylist()) == {DAY, NEXT, LAST}
