"""Ways to read a table in this process, and what each of them has to show of the model."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from sparkhaven import Snapshot, open_table, sql
from sparkhaven.errors import SettingsError, SnapshotMovedError
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from tests.crash.histories.columns import Col, Rows, plain, rows_of
from tests.crash.histories.model import Model, NotKept, Row
from tests.crash.histories.predicates import Predicate, draw_predicate
from tests.crash.histories.world import Shown, World, indexed

SHOWN = 6  # rows of a difference that are named
NOT_IN_SQL = ("map", "text map", "instants", "whole", "wide decimal", "any whole", "chars")


class Wrong(AssertionError):
    """A reader, or the end of a command, is not as the model has it."""


@dataclass
class Look:
    """What is looked at: a history does not depend on it. ``asked``: how often each reader was asked.

    ``sound``: `verify` has to find nothing.
    """

    rng: random.Random
    asked: Counter[str] = field(default_factory=Counter)
    sound: bool = True


def require(condition: bool, text: str) -> None:
    if not condition:
        raise Wrong(text)


def counted(columns: Sequence[Col], rows: Iterable[Row]) -> Rows:
    """Rows of the model, as readers show these columns."""
    rows = [*rows]
    return rows_of(columns, [[row.get(column.key) for row in rows] for column in columns])


def expected_rows(table: Shown | None) -> Rows:
    """The rows of a table of the model; none if there is no such table."""
    return Counter() if table is None else counted(table.columns, table.visible())


def shown(columns: Sequence[Col], table: pa.Table) -> Rows:
    """Rows that a reader has shown."""
    return rows_of(columns, [plain(table.column(column.name)) for column in columns])


def difference(found: Rows, expected: Rows) -> str:
    """How the rows of a reader differ from those of the model."""
    missing, more = expected - found, found - expected
    named = [
        f"{rows.total()} {what} {[*rows.items()][:SHOWN]}" for rows, what in ((missing, "missing"), (more, "too many"))
    ]
    return f"{found.total()} rows for {expected.total()}: {', '.join(named)}"


@dataclass
class PinnedReader:
    """A table that was opened, the rows that it had then, and the filters that it is asked."""

    opened: Snapshot
    columns: tuple[Col, ...]
    rows: list[Row]
    since: int
    filters: list[Predicate] = field(default_factory=list)
    moved: bool = False

    def ask(self, look: Look) -> None:
        """Its rows are those of then, or it says that they have moved."""
        if self.moved:
            return
        where = look.rng.choice([None, *self.filters])
        names = [column.name for column in self.columns]
        expected = [row for row in self.rows if where is None or where.holds(row)]
        try:
            found = self.opened.to_arrow(names, where=where.text() if where else None)
        except SnapshotMovedError:
            self.moved = True
            return
        look.asked["a table that was open before"] += 1
        rows, wanted = shown(self.columns, found), counted(self.columns, expected)
        asked = f" where {where.text()}" if where else ""
        require(rows == wanted, f"the reader that was opened at step {self.since}{asked}: {difference(rows, wanted)}")


def check_table(look: Look, root: Path, table: Shown, *, epochs: int = 0, filters: int = 1, deep: bool = False) -> int:
    """All rows by Arrow, filters by Arrow and SQL, older epochs, and no damage; how many epochs were compared."""
    rows = table.visible()
    expected = counted(table.columns, rows)
    names = [column.name for column in table.columns]
    for _ in range(2 if look.rng.random() < 0.2 else 1):
        found = shown(table.columns, open_table(root, table.name).to_arrow(names))
        require(found == expected, f"{root.name} {table.name}: {difference(found, expected)}")
        look.asked["open_table"] += 1
    check_filters(look, root, table, rows, filters)
    compared = 1 + (check_epochs(look, root, table, epochs) if isinstance(table, Model) else 0)
    if look.sound and (deep or look.rng.random() < 0.4):
        check_damage(root, TableName.parse(table.name), deep=deep)
        look.asked["verify --deep" if deep else "verify"] += 1
    return compared


def check_filters(look: Look, root: Path, table: Shown, rows: Sequence[Row], count: int) -> None:
    """Filters keep the rows that they hold for, by Arrow and by SQL."""
    opened, keys, rng = open_table(root, table.name), [*indexed(table)], look.rng
    for _ in range(count):
        where = draw_predicate(rng, table.columns, rows, keys)
        columns = rng.sample(table.columns, min(4, len(table.columns)))
        expected = counted(columns, [row for row in rows if where.holds(row)])
        found = shown(columns, opened.to_arrow([column.name for column in columns], where=where.text()))
        require(found == expected, f"{root.name} {table.name} where {where.text()}: {difference(found, expected)}")
        look.asked["open_table with a condition"] += 1
        if rng.random() < 0.2:
            number = opened.count(where=where.text())
            told = f"{table.name} counts {number} where {where.text()}, of {expected.total()}"
            require(number == expected.total(), told)
            look.asked["count"] += 1
        if rng.random() < 0.15 and where.is_sql():
            check_sql(root, table, where, rows)
            look.asked["sql"] += 1


def check_sql(root: Path, table: Shown, where: Predicate, rows: Sequence[Row]) -> None:
    """A query with a condition shows the rows that it holds for."""
    columns = [column for column in table.columns if column.kind.name not in NOT_IN_SQL]
    chosen = ", ".join(f'"{column.name}"' for column in columns)
    found = shown(columns, sql(root, f"select {chosen} from {table.name} where {where.text(sql=True)}"))
    expected = counted(columns, [row for row in rows if where.holds(row)])
    require(found == expected, f"SQL over {table.name} where {where.text(sql=True)}: {difference(found, expected)}")


def check_epochs(look: Look, root: Path, model: Model, count: int) -> int:
    """Older epochs show their rows; how many were compared. Refused where rows of one have left intraday."""
    older = [(name, epoch) for name, stream in model.streams.items() for epoch in stream.older]
    compared, names = 0, [column.name for column in model.columns]
    for name, epoch in look.rng.sample(older, min(count, len(older))):
        try:
            expected = counted(model.columns, model.visible({name: epoch}))
        except NotKept:
            continue  # the command may still have the rows in an older generation
        try:
            found = shown(model.columns, open_table(root, model.name, epoch={name: epoch}).to_arrow(names))
        except SettingsError:
            require(model.may_refuse({name: epoch}), f"{model.name} at {name}={epoch} is refused")
            continue
        require(found == expected, f"{model.name} at {name}={epoch}: {difference(found, expected)}")
        compared += 1
    look.asked["open_table at an epoch"] += compared
    return compared


def check_damage(root: Path, table: TableName | None, *, deep: bool) -> None:
    """``verify`` finds no damage."""
    found = [one.text() for one in verify(Fs(), Layout(root), table, deep=deep).findings if one.severity == "error"]
    require(not found, f"verify of {root.name}: {found}")


def check_copy(look: Look, root: Path, world: World, *, deep: bool = False) -> None:
    """A copy shows, to whoever opens it first, the rows that its tables had."""
    for table in world.written():
        check_table(look, root, table, deep=deep)


def rows_now(root: Path, table: Shown) -> Rows:
    """All rows of a table; none where it is not there yet."""
    layout, name = Layout(root), TableName.parse(table.name)
    if not (layout.schema(name) if isinstance(table, Model) else layout.user_definition(name)).exists():
        return Counter()
    names = [column.name for column in table.columns]
    return shown(table.columns, open_table(root, table.name).to_arrow(names))
