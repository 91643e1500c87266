"""Damage that no checksum shows, in columns of every type, groupings and indexes: what `verify --deep` says of it.

The checksums of the records fit the damaged files, as after a writer with an error. Any other change of a byte is
found by them alone. Each kind is planted intraday, in history, and in history in Parquet, where it applies.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from sparkhaven.readers.checks.committed import Expected
from sparkhaven.readers.checks.findings import Finding
from sparkhaven.readers.checks.location import check_location
from sparkhaven.store.format.column.prefix import DATA_OFFSET
from sparkhaven.store.format.table import table_size
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.native.checked_columns import checksum
from sparkhaven.store.schema.deployed.deploy import definitions
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.partitions import add_partition
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.coded_rows import COLUMNS, DAY, SCHEMA, TABLE, coded_row, coded_table
from tests.support.writers.merge_runs import FS, merge

INTRADAY, HISTORY, PARQUET = "intraday", "history", "history in Parquet"
ROWS, ROW = 12, 3
INDEXED = SCHEMA.replace(b"</Table>", b'<DataIndex columns="N"/></Table>')
Changed = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Site:
    """A location with all types, without nulls, and its files as they were written."""

    name: str
    schema: TableSchema
    expected: Expected
    files: dict[str, bytes]
    definitions: frozenset[bytes]

    def findings(self, changed: Changed) -> list[Finding]:
        """What is wrong with other content of some files, whose checksums are recorded."""
        directory = self.expected.directory
        for name, data in changed.items():
            (directory / name).write_bytes(data)
        try:
            files, indexes = (self._states(part, changed) for part in (self.expected.files, self.expected.indexes))
            expected = replace(self.expected, files=files, indexes=indexes)
            found = [*check_location(FS, self.schema, expected, self.definitions, deep=True)]
        finally:
            for name in changed:
                (directory / name).write_bytes(self.files[name])
        return [defect for defect in found if Path(defect.path) != directory / "table.size"]  # has the former sums

    def _states(self, states: Mapping[str, FileState], changed: Changed) -> dict[str, FileState]:
        return {name: self._state(name) if name in changed else state for name, state in states.items()}

    def _state(self, name: str) -> FileState:
        path = self.expected.directory / name
        start = DATA_OFFSET if name in self.expected.files and name.endswith(".dat") else 0
        size = max(path.stat().st_size - start, 0)
        return FileState(size, checksum(FS, path, start, size))

    def entries(self, name: str, kind: str, change: Callable[[np.ndarray], object]) -> Changed:
        """Other numbers behind the prefix of a file."""
        data = self.files[name]
        numbers = np.frombuffer(data, kind, offset=DATA_OFFSET).copy()
        change(numbers)
        return {name: data[:DATA_OFFSET] + numbers.tobytes()}

    def entry(self, column: str, entry: bytes) -> Changed:
        """Another entry of fixed width in ``ROW``."""
        data = self.files[f"{column}.dat"]
        assert (len(data) - DATA_OFFSET) == ROWS * len(entry), f"{column} has another width"
        start = DATA_OFFSET + ROW * len(entry)
        return {f"{column}.dat": data[:start] + entry + data[start + len(entry) :]}

    def value(self, column: str, change: Callable[[bytes], bytes], entry: int = ROW) -> Changed:
        """Other bytes of a value of any length, at their right place; ``column`` may lie in an index."""
        data, texts = self.files[f"{column}.dat"], self.files[f"{column}.bytes"]
        ends = [0, *np.frombuffer(data, "<i8", offset=DATA_OFFSET).tolist()]
        parts = [texts[first:stop] for first, stop in pairwise(ends)]
        parts[entry] = change(parts[entry])
        lengths = np.cumsum([len(part) for part in parts]).astype("<i8")
        changed = {f"{column}.dat": data[:DATA_OFFSET] + lengths.tobytes(), f"{column}.bytes": b"".join(parts)}
        return changed | self._record(column, len(changed[f"{column}.bytes"]))

    def _record(self, column: str, size: int) -> Changed:
        """The ``table.size`` of the index in which a column lies, with another length of its bytes."""
        index, _, name = column.rpartition("/")
        if not index:
            return {}
        record = table_size.decode(self.files[f"{index}/table.size"], index)
        sizes = {**record.data_file_sizes, f"{name}.bytes": size}
        return {f"{index}/table.size": table_size.encode(replace(record, data_file_sizes=sizes))}

    def parquet(self, column: str, value: Any, *, name: str = "table.parquet", row: int = ROW) -> Changed:
        """A Parquet file that has another value in a row."""
        path = self.expected.directory / name
        table = pq.read_table(path, partitioning=None)
        number = table.schema.get_field_index(column)
        field = table.schema.field(number)
        values = table.column(number).to_pylist()
        values[row] = value(values[row]) if callable(value) else value
        other = type(table).from_pydict({column: values}, table.schema.empty_table().select([column]).schema)
        other_path = path.with_name(".changed")
        pq.write_table(table.set_column(number, field, other.column(0)), other_path)
        data = other_path.read_bytes()
        other_path.unlink()
        return {name: data}


def sites(root: Path) -> Iterator[Site]:
    """The three places of the same rows."""
    chance = random.Random(5)
    drawn = (coded_row(chance, number) for number in range(10_000))
    whole = (row for row in drawn if row["Sym"] and all(row[name] not in (None, [], b"") for name in COLUMNS))
    rows = [next(whole) for _ in range(ROWS)]
    for form in ("deephaven", "parquet"):
        db = IntradayRows(root / form, INDEXED, fs=FS)
        db.commit({("a", DAY): coded_table(db.schema, rows)})
        add_partition(FS, db.layout, "Test", "0")
        if form == "deephaven":
            state = db.log.state.locations[LocationKey("a", DAY)]
            directory = db.layout.intraday_location(db.table, LocationKey("a", DAY))
            yield _site(INTRADAY, db, Expected("intraday", directory, ROWS, state.files, {}))
        merge(db.layout, table=TABLE, format=form)
        record = newest(db.place, DAY)
        assert record is not None
        (output,) = record.outputs
        directory = db.layout.history_location(TABLE, LocationKey(output.internal, DAY))
        expected = Expected("history", directory, ROWS, output.files, output.stats, indexes=output.indexes)
        yield _site(HISTORY if form == "deephaven" else PARQUET, db, expected)


def _site(name: str, db: IntradayRows, expected: Expected) -> Site:
    top = expected.directory.resolve()
    files = {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}
    return Site(name, db.schema, expected, files, frozenset(definitions(db.place).values()))
