"""Tables that users save: replaced or extended as a whole."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import pyarrow.parquet as pq

from tests.crash.histories.apart import SAVE
from tests.crash.histories.columns import KINDS, Col
from tests.crash.histories.model import UserTable
from tests.crash.histories.operations.base import Operation
from tests.crash.histories.readers import expected_rows, rows_now
from tests.crash.histories.world import DATES, NAMESPACE, Site, World, arrow_rows

DAY = Col("Day", "Day", KINDS["symbol"])
SAVED = {f"{NAMESPACE}.Saved": "", f"{NAMESPACE}.Daily": DAY.name}
"""The tables, and the column of the partitions of each."""
KEPT = [
    "Boolean",
    "byte",
    "short",
    "int",
    "long",
    "float",
    "double",
    "Instant",
    "symbol",
    "date",
    "time",
    "decimal",
    "whole",
    "bytes",
    "Booleans",
    "shorts",
    "ints",
    "longs",
    "floats",
    "doubles",
    "texts",
    "instants",
]
"""Kinds whose type of Arrow a save keeps."""


def save(rng: random.Random, site: Site, world: World) -> Operation:
    """New rows, in the place of those that are there or beside them."""
    name = rng.choice([*SAVED])
    before, by = world.users.get(name), SAVED[name]
    mode = rng.choice(("replace", "append"))
    if before is None or mode == "replace":
        kinds = [KINDS[kind] for kind in rng.sample(KEPT, rng.randint(1, 3))]
        columns = (DAY, *(Col(f"U{n}", f"U{n}", kind) for n, kind in enumerate(kinds)))
        before = UserTable(name, columns, (), by)
    rows = [
        {column.key: column.kind.draw(rng) for column in before.columns} | {"Day": rng.choice(DATES)}
        for _ in range(rng.randint(1, site.most))
    ]
    after = replace(before, rows=(*before.rows, *rows))
    file = site.fresh("rows")
    pq.write_table(arrow_rows(before.columns, rows), file)
    words, change = (SAVE, str(file), name, mode, by), partial(_saved, after)

    return Operation("save_table", words, (change,), lambda root: rows_now(root, after) == expected_rows(after))


def _saved(table: UserTable, world: World) -> None:
    world.users[table.name] = table
