"""What each reader without a JVM shows of an altered table, held against the oracle. Everything is asked twice."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sparkhaven import sql
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.snapshot import Snapshot
from sparkhaven.store.errors import SnapshotMovedError
from tests.support.commands import run
from tests.support.schemas.altered_table import AlteredTable
from tests.support.schemas.changes import Col, Columns
from tests.support.streams.schema_site import TABLE
from tests.support.tables.live_tables import Attached, Engine

Rows = list[tuple[Any, ...]]
WHOLE = {"long": -(2**63), "java.lang.Long": -(2**63), "int": -(2**31), "short": -(2**15)}
LOWEST = WHOLE | {"double": -1.7976931348623157e308, "float": -3.4028234663852886e38}


def in_order(rows: Iterable[Iterable[Any]]) -> Rows:
    return sorted((tuple(row) for row in rows), key=repr)


def same_rows(found: Iterable[Iterable[Any]], expected: Iterable[Iterable[Any]], what: str) -> None:
    """AssertionError with the first word that the crash page sorts by: lost, doubled or torn."""
    one, other = in_order(found), in_order(expected)
    if one != other:
        word = "lost" if len(one) < len(other) else "doubled" if len(one) > len(other) else "torn"
        surplus, missing = [row for row in one if row not in other], [row for row in other if row not in one]
        raise AssertionError(f"{word}: {what} shows {surplus}, should {missing}")


def as_rows(table: pa.Table, columns: Columns) -> Rows:
    return [tuple(row[name] for name in columns) for row in table.to_pylist()]


def literal(value: Any) -> str:
    return "'" + value + "'" if isinstance(value, str) else str(value)


def by_arrow(table: AlteredTable, opened: Snapshot, columns: Columns, what: str = "Arrow") -> None:
    """All columns, each column by name, and a filter on each: every value, and null."""
    for _ in range(2):
        same_rows(as_rows(opened.to_arrow(list(columns)), columns), table.expected(columns), what)
    assert opened.count() == len(table.rows)
    for name, column in columns.items():
        values = Counter(value for (value,) in table.expected({name: column}))
        one = {name: column}
        same_rows(as_rows(opened.to_arrow([name]), one), table.expected(one), f"{what}, {name} alone")
        assert opened.count(where=f"{name} is null") == values[None], f"torn: {what} counts other nulls in {name}"
        for value in [value for value in values if value is not None][:3]:
            found = opened.count(where=f"{name} = {literal(value)}")
            assert found == values[value], f"torn: {what} finds {found} rows by {name} = {value}"


def arrow(table: AlteredTable) -> None:
    opened = open_table(table.root, TABLE)
    assert opened.to_arrow().column_names == list(table.shown)
    by_arrow(table, opened, table.shown)
    hidden = {name: column for name, column in table.hidden.items() if name not in table.shown}
    if hidden:
        by_arrow(table, open_table(table.root, TABLE), hidden, "Arrow by the name of a dropped column")


def shown_rows(table: AlteredTable) -> None:
    """The columns that are shown; a command that was killed may or may not have left out the others."""
    opened = open_table(table.root, TABLE)
    same_rows(as_rows(opened.to_arrow(), table.shown), table.expected(table.shown), "Arrow after a kill")


def sql_rows(table: AlteredTable) -> None:
    """The whole table; then its columns in another order, with a filter that each time is on another one."""
    found = sql(table.root, f"SELECT * FROM {TABLE}")
    assert found.column_names == list(table.shown)
    same_rows(as_rows(found, table.shown), table.expected(table.shown), "sql")
    table.looks += 1
    name, column = list(table.shown.items())[table.looks % len(table.shown)]
    values = [value for (value,) in table.expected({name: column}) if value is not None]
    where = f'"{name}" = {literal(values[-1])}' if values and table.looks % 2 else f'"{name}" IS NULL'
    wanted = values[-1] if " = " in where else None
    turned = dict(reversed(table.shown.items()))
    names = ", ".join(f'"{shown}"' for shown in turned)
    found = sql(table.root, f"SELECT {names} FROM {TABLE} WHERE {where}")
    position = list(turned).index(name)
    expected = [row for row in table.expected(turned) if row[position] == wanted]
    same_rows(as_rows(found, turned), expected, f"sql where {where}")


def exported(table: AlteredTable) -> None:
    out = table.base / "exported"
    for _ in range(2):
        found = run(table.root, "export", TABLE, "--layout", "flat", "--out", str(out))
        assert found.exit_code == 0, found.stderr
        parts = [pq.read_table(path) for path in sorted(out.rglob("*.parquet"))]
        rows = [row for part in parts for row in as_rows(part, table.shown)]
        same_rows(rows, table.expected(table.shown), "export")
    shutil.rmtree(out)


def command(table: AlteredTable) -> None:
    """``read``, as a person sees it."""
    found = run(table.root, "read", TABLE, "--json")
    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout)["rows"] == len(table.rows)


def engine(table: AlteredTable) -> None:
    attached_rows(table, Engine(table.root).attach("Test_Event"), table.shown, "engine")


def attached_rows(table: AlteredTable, attached: Attached, columns: Columns, what: str) -> None:
    assert not attached.errors, attached.errors
    shown = [_plain(attached, name, column) for name, column in columns.items()]
    same_rows(zip(*shown, strict=True), table.expected(columns), what)


def _plain(attached: Attached, name: str, column: Col) -> list[Any]:
    if column.partitioning:
        return [attached.values[place] for place, rows in attached.sizes.items() for _ in range(rows)]
    lowest = LOWEST.get(column.type)
    return [None if value == lowest else value for value in attached.column(name)]


@dataclass
class Before:
    """A table that was opened, and an engine that was attached, before a change; both are asked again after it."""

    opened: Snapshot
    shown: Columns
    rows: int
    server: Engine
    attached: Attached

    @staticmethod
    def of(table: AlteredTable) -> Before:
        server = Engine(table.root)
        opened = open_table(table.root, TABLE)
        return Before(opened, table.shown, len(table.rows), server, server.attach("Test_Event"))

    def ask(self, table: AlteredTable) -> None:
        """The rows of then under the names of then; or an error that names a column, for one that files lack since."""
        for name, column in self.shown.items():
            one = {name: column}
            expected = [(row.values.get(column.key),) for row in table.rows[: self.rows]]
            for _ in range(2):
                try:
                    found = self.opened.to_arrow([name])
                except SnapshotMovedError as error:
                    text = str(error)
                    assert name in text or "deleted" in text or "rolled back" in text, text
                    assert TABLE in text or "Test" in text, text
                    continue
                same_rows(as_rows(found, one), expected, f"a table opened before, {name}")
        self.ask_engine(table)

    def ask_engine(self, table: AlteredTable) -> None:
        """All rows of now under the names of then, or an error that says why not; a column of which a merge has left
        out values shows them or not, as the engine had seen them before or not."""
        for _ in range(3):
            self.server.look(1.0)
        if self.attached.errors:
            assert all(isinstance(error, SnapshotMovedError) for error in self.attached.errors), self.attached.errors
            return
        left_out = {key for row in table.rows for key in row.left_out}
        kept = {name: column for name, column in self.shown.items() if column.key not in left_out}
        for _ in range(2):
            try:
                attached_rows(table, self.attached, kept, "an engine attached before")
            except SnapshotMovedError as error:
                assert "Test" in str(error) and error.hint, str(error)


DOORS = (arrow, sql_rows, exported, command, engine)


def look(table: AlteredTable, *doors: Any) -> None:
    """Asks these readers, or all."""
    for door in doors or DOORS:
        door(table)
