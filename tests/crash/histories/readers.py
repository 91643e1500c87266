"""Every way to read a table, and what each of them has to show of the model."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkhaven import Table, open_table, sql
from sparkhaven.errors import SettingsError, SnapshotMovedError
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from tests.crash.histories.columns import Col, cells, plain
from tests.crash.histories.model import Model, NotKept, Row
from tests.crash.histories.predicates import Predicate, draw_predicate
from tests.crash.histories.world import World, indexed

Rows = Counter[tuple[Any, ...]]
SHOWN = 6  # rows of a difference that are named


class Wrong(AssertionError):
    """A reader, or the end of a command, is not as the model has it."""


def require(condition: bool, text: str) -> None:
    if not condition:
        raise Wrong(text)


def counted(columns: Sequence[Col], rows: Iterable[Row]) -> Rows:
    """Rows of the model, as readers show these columns."""
    return Counter(cells(row.get(column.key) for column in columns) for row in rows)


def shown(columns: Sequence[Col], table: pa.Table) -> Rows:
    """Rows that a reader has shown."""
    if not columns:
        return Counter({(): table.num_rows})
    values = [plain(table.column(column.name)) for column in columns]
    return Counter(map(cells, zip(*values, strict=True)))


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

    opened: Table
    columns: tuple[Col, ...]
    rows: list[Row]
    since: int
    filters: list[Predicate] = field(default_factory=list)
    moved: bool = False

    def ask(self, rng: random.Random) -> None:
        """Its rows are those of then, or it says that they have moved."""
        if self.moved:
            return
        where = rng.choice([None, *self.filters])
        names = [column.name for column in self.columns]
        expected = [row for row in self.rows if where is None or where.holds(row)]
        try:
            found = self.opened.to_arrow(names, where=where.text() if where else None)
        except SnapshotMovedError:
            self.moved = True
            return
        rows, wanted = shown(self.columns, found), counted(self.columns, expected)
        asked = f" where {where.text()}" if where else ""
        require(rows == wanted, f"the reader that was opened at step {self.since}{asked}: {difference(rows, wanted)}")


def check_table(rng: random.Random, root: Path, model: Model, *, epochs: int, filters: int, deep: bool = False) -> int:
    """All rows by Arrow and by SQL, some filters, some older epochs, and no damage; how many epochs were compared."""
    if not any(stream.newest for stream in model.streams.values()):
        return 0  # nothing is deployed
    rows = model.visible()
    expected = counted(model.columns, rows)
    names = [column.name for column in model.columns]
    for _ in range(2 if rng.random() < 0.2 else 1):
        found = shown(model.columns, open_table(root, model.name).to_arrow(names))
        require(found == expected, f"{root.name} {model.name}: {difference(found, expected)}")
    check_filters(rng, root, model, rows, filters)
    compared = check_epochs(rng, root, model, epochs) + 1
    if deep or rng.random() < 0.4:
        check_damage(root, TableName.parse(model.name), deep=deep)
    return compared


def check_filters(rng: random.Random, root: Path, model: Model, rows: Sequence[Row], count: int) -> None:
    """Filters keep the rows that they hold for, by Arrow and by SQL."""
    opened, keys = open_table(root, model.name), [*indexed(model)]
    for _ in range(count):
        where = draw_predicate(rng, model.columns, rows, keys)
        columns = rng.sample(model.columns, min(4, len(model.columns)))
        expected = counted(columns, [row for row in rows if where.holds(row)])
        found = shown(columns, opened.to_arrow([column.name for column in columns], where=where.text()))
        require(found == expected, f"{root.name} {model.name} where {where.text()}: {difference(found, expected)}")
        if rng.random() < 0.2:
            number = opened.count(where=where.text())
            require(
                number == expected.total(), f"{model.name} counts {number} where {where.text()}, of {expected.total()}"
            )
        if rng.random() < 0.15 and where.is_sql():
            check_sql(root, model, where, rows)


def check_sql(root: Path, model: Model, where: Predicate, rows: Sequence[Row]) -> None:
    columns = [column for column in model.columns if column.kind.name not in ("map", "instants", "whole")]
    chosen = ", ".join(f'"{column.name}"' for column in columns)
    found = shown(columns, sql(root, f"select {chosen} from {model.name} where {where.text(sql=True)}"))
    expected = counted(columns, [row for row in rows if where.holds(row)])
    require(found == expected, f"SQL over {model.name} where {where.text(sql=True)}: {difference(found, expected)}")


def check_epochs(rng: random.Random, root: Path, model: Model, count: int) -> int:
    """Older epochs show their rows; how many were compared. Refused where rows of one have left intraday."""
    older = [(name, epoch) for name, stream in model.streams.items() for epoch in stream.older]
    compared, names = 0, [column.name for column in model.columns]
    for name, epoch in rng.sample(older, min(count, len(older))):
        try:
            expected = counted(model.columns, model.visible({name: epoch}))
        except NotKept:
            continue  # the command may still have the rows in an older generation
        try:
            found = shown(model.columns, open_table(root, model.name, epoch={name: epoch}).to_arrow(names))
        except SettingsError:  # it may be refused where rows of it have left intraday, but never be wrong
            removed = any(location in model.removed for location in model.rows_at({**model.newest(), name: epoch}))
            require(removed, f"{model.name} at {name}={epoch} is refused")
            continue
        require(found == expected, f"{model.name} at {name}={epoch}: {difference(found, expected)}")
        compared += 1
    return compared


def check_damage(root: Path, table: TableName | None, *, deep: bool) -> None:
    """``verify`` finds no damage."""
    found = [one.text() for one in verify(Fs(), Layout(root), table, deep=deep).findings if one.severity == "error"]
    require(not found, f"verify of {root.name}: {found}")


def check_copy(rng: random.Random, root: Path, world: World, *, deep: bool = False) -> None:
    """A copy shows, to whoever opens it first, the rows that its tables had."""
    for model in world.tables.values():
        check_table(rng, root, model, epochs=0, filters=1, deep=deep)


def rows_now(root: Path, model: Model) -> Rows:
    """All rows of a table; none where it is not deployed yet."""
    if not Layout(root).schema(TableName.parse(model.name)).exists():
        return Counter()
    names = [column.name for column in model.columns]
    return shown(model.columns, open_table(root, model.name).to_arrow(names))
