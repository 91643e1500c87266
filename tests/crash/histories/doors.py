"""Further doors to the rows of a table: what an engine is served, trees of Parquet files, and comparisons of roots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sparkhaven.errors import UnsupportedVersionError
from sparkhaven.readers.live.live_table import LiveTable
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from tests.crash.histories.columns import PLAIN, Col, Rows, plain, rows_of
from tests.crash.histories.model import Model
from tests.crash.histories.readers import Wrong, counted, difference, require
from tests.crash.histories.world import DATE
from tests.support.commands import run

IN_TREES = ("byte", "short", "int", "long", "symbol", "text", "Boolean", "Instant")  # as Parquet has them


def plain_columns(model: Model, names: Sequence[str] = ()) -> list[Col]:
    """The columns of plain types, or of some of these."""
    return [column for column in model.columns if column.kind in PLAIN and (not names or column.kind.name in names)]


# --- an engine -----------------------------------------------------------------------------------------------


def check_live(root: Path, model: Model) -> bool:
    """A table that an engine attaches now shows the rows of the model; False: it has a type that engines lack."""
    place = TablePlace(Fs(), Layout(root), TableName.parse(model.name))
    try:
        opened = LiveTable(place)
    except UnsupportedVersionError:
        return False
    columns = plain_columns(model)
    found = Rows()
    for location in opened.places():
        size = opened.size(location)
        values = [
            [location.at.value] * size if column.name == DATE.name else _served(opened, location, column, size)
            for column in columns
        ]
        found.update(rows_of(columns, values))
    wanted = counted(columns, model.visible())
    require(found == wanted, f"{root.name} {model.name} in an engine: {difference(found, wanted)}")
    return True


def _served(opened: LiveTable, location: Any, column: Col, size: int) -> list[Any]:
    values = plain(pa.chunked_array([opened.values(location, column.name, 0, size, size)]))
    return [None if value == column.kind.null_value else value for value in values]


# --- trees ---------------------------------------------------------------------------------------------------


def tree_rows(tree: Path, columns: Sequence[Col]) -> Rows:
    """The rows of the Parquet files of a tree, which their directories give dates."""
    found = Rows()
    for path in sorted(tree.rglob("*.parquet")):
        table = pq.ParquetFile(path).read()
        date = next((part.removeprefix("Date=") for part in path.parts if part.startswith("Date=")), None)
        date = path.parent.parent.name if date is None and path.name == "table.parquet" else date
        values = [
            [date] * table.num_rows if column.name == DATE.name and date else plain(table.column(column.name))
            for column in columns
        ]
        found.update(rows_of(columns, values))
    return found


def check_tree(tree: Path, model: Model, rows: Sequence[Mapping[str, Any]], what: str) -> None:
    """A tree has these rows of a table."""
    columns = plain_columns(model, IN_TREES)
    found, wanted = tree_rows(tree, columns), counted(columns, rows)
    require(found == wanted, f"{what} of {model.name}: {difference(found, wanted)}")


def check_extended(root: Path, model: Model) -> None:
    """The tree beside history has the rows of history."""
    tree = Layout(root).extended(TableName.parse(model.name))
    check_tree(tree, model, model.merged_rows(), "the tree beside history")


# --- comparisons ---------------------------------------------------------------------------------------------


def check_compare(root: Path, model: Model, other: Path, copied: Model) -> bool:
    """``compare`` tells whether a copy has the rows that a table has now; False: they have other columns."""
    if model.columns != copied.columns:
        return False
    rows = counted(model.columns, model.visible()), counted(model.columns, copied.visible())
    done = run(root, "compare", str(other), model.name)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise Wrong(f"compare of {model.name}: {type(done.exception).__name__}: {done.exception}")
    told = f"compare of {model.name} with {other.name} ends with {done.exit_code}, the copy"
    same = rows[0] == rows[1]
    require(done.exit_code == int(not same), f"{told} has {'the same' if same else 'other'} rows: {done.output[-600:]}")
    return True
