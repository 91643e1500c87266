"""Commands that change rows of a table: values computed anew, and rows deleted by a condition."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from tests.crash.histories.model import Model, Refused, Row
from tests.crash.histories.operations.base import Operation, any_table, has_no_rows, on, some_dates, some_rows
from tests.crash.histories.predicates import Predicate, draw_predicate
from tests.crash.histories.world import KEY, KEYS, Site, World, indexed


def correct(rng: random.Random, site: Site, world: World) -> Operation:
    """Other prices, each time by another number: the same command again changes nothing."""
    model = any_table(rng, world)
    date, more = some_dates(rng, site, model)[0], rng.randint(10, 10**9)
    words = _rewrite(model, date, f"Price=coalesce(Price, 0) + {more}")

    def change(row: Row) -> Row:
        return {**row, "Price": (row["Price"] or 0) + more}

    return _rewritten(model, date, words, change)


def swap(rng: random.Random, site: Site, world: World) -> Operation | None:
    """Two values of a column change places among its rows, so that the column as a whole has the same values."""
    model = any_table(rng, world)
    date = some_dates(rng, site, model)[0]
    record = model.record(date)
    rows = record.rows if record else ()
    names = ("int", "long", "short", "symbol", "text")
    columns = [c for c in model.columns if c.kind.name in names and c.name not in ("Date", "Sym", "Key", "Source")]
    column = rng.choice(columns)
    values = sorted({row[column.key] for row in rows if row.get(column.key) is not None})
    if len(values) < 2:
        return None
    counts = {value: sum(row.get(column.key) == value for row in rows) for value in values}
    one = rng.choice(values)
    other = rng.choice(sorted((v for v in values if v != one), key=lambda v: counts[v] != counts[one])[:2])
    first, second = (str(column.kind.literal(value)) for value in (one, other))
    mark = f"Key <> {-rng.randint(10, 10**6)}"  # the same expression again would change nothing
    name = column.name
    cases = f"WHEN {mark} AND {name} = {first} THEN {second} WHEN {name} = {second} THEN {first}"
    expression = f"{name}=CASE {cases} ELSE {name} END"

    def change(row: Row) -> Row:
        value = row.get(column.key)
        return {**row, column.key: other if value == one else one} if value in (one, other) else row

    return _rewritten(model, date, _rewrite(model, date, expression), change)


def exchange(rng: random.Random, site: Site, world: World) -> Operation | None:
    """Two columns of a type exchange their values."""
    model = any_table(rng, world)
    pairs = [
        (a, b)
        for a in model.columns
        for b in model.columns
        if a.key < b.key and a.kind is b.kind and not {a.name, b.name} & {"Date", "Sym", "Key", "Source", "At"}
    ]
    date = some_dates(rng, site, model)[0]
    if not pairs:
        return None
    one, other = rng.choice(pairs)
    words = _rewrite(model, date, f"{one.name}={other.name}", f"{other.name}={one.name}")

    def change(row: Row) -> Row:
        values = row.get(one.key), row.get(other.key)
        return row if values[0] is values[1] else {**row, one.key: values[1], other.key: values[0]}

    return replace(_rewritten(model, date, (*words, "--again"), change), done=None)


def _rewrite(model: Model, date: str, *expressions: str) -> tuple[str, ...]:
    settings = [word for expression in expressions for word in ("--set", expression)]
    return ("rewrite-column", model.name, "--local", "--dates", date, *settings)


def _rewritten(model: Model, date: str, words: Sequence[str], change: Callable[[Row], Row]) -> Operation:
    step = partial(on, model.name, lambda after: after.rewrite(date, change))
    return Operation("rewrite-column", tuple(words), (step,), either=has_no_rows(model, date))


def delete_rows(rng: random.Random, site: Site, world: World) -> Operation:
    """The rows that a filter holds for, of one date or all."""
    model = any_table(rng, world)
    dates = some_dates(rng, site, model)
    columns = [column for column in model.columns if column.name not in ("Date", "At")]
    where = draw_predicate(rng, columns, some_rows(rng, model, dates), [*indexed(model)])
    if rng.random() < 0.4:  # the first and the last rows of a date that was sorted, and none between
        where = Predicate("in", KEY, (KEYS[0], KEYS[-1]))
    words = ("delete-rows", model.name, "--where", where.text(), "--dates", ",".join(dates))
    changes = [partial(on, model.name, partial(_require_dates, dates))]
    changes += [
        partial(on, model.name, partial(_withdraw, name, where, dates))
        for name, stream in model.streams.items()
        if stream.exists
    ]
    changes += [partial(on, model.name, partial(_delete_merged, where, date)) for date in dates]
    return Operation("delete-rows", words, tuple(changes))


def _require_dates(dates: Sequence[str], model: Model) -> None:
    if not {*dates} <= {*model.dates()}:
        raise Refused("no such date")


def _withdraw(stream: str, where: Predicate, dates: Sequence[str], model: Model) -> None:
    model.withdraw_rows(stream, where.holds, dates)


def _delete_merged(where: Predicate, date: str, model: Model) -> None:
    model.delete_merged(where.holds, date)
