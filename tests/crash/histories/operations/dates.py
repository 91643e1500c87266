"""Commands on dates: validated, emptied, deleted, moved, detached, attached, dropped."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from tests.crash.histories.model import Model, Refused
from tests.crash.histories.operations.base import Draw, Operation, any_table, has_no_rows, on, some_dates
from tests.crash.histories.world import Site, World


def on_date(name: str, words: tuple[str, ...], change: Callable[[Model, str], None]) -> Draw:
    """A command on one date that a model method follows."""

    def draw(rng: random.Random, site: Site, world: World) -> Operation:
        model = any_table(rng, world)
        date = some_dates(rng, site, model)[0]
        head = len(name.split())
        line = (*words[:head], model.name, "--dates", date, *words[head:])
        either = has_no_rows(model, date)
        return Operation(name, line, (partial(on, model.name, lambda after: change(after, date)),), either=either)

    return draw


def on_all_dates(name: str, words: tuple[str, ...], change: Callable[[Model, str], None]) -> Draw:
    """The same on every date of a table for which it is possible."""

    def draw(rng: random.Random, site: Site, world: World) -> Operation | None:
        model, dates = any_table(rng, world), list[str]()
        for date in model.dates():
            if name != "merge" and has_no_rows(model, date):
                continue  # nobody knows whether it was validated
            with suppress(Refused):
                change(model.copy(), date)
                dates.append(date)
        if not dates:
            return None
        line = (words[0], model.name, "--dates", ",".join(dates), *words[1:])
        changes = tuple(partial(on, model.name, partial(_change_date, change, date)) for date in dates)
        return Operation(name, line, changes, again=(0, 2) if name == "delete" else ())

    return draw


def _change_date(change: Callable[[Model, str], None], date: str, model: Model) -> None:
    change(model, date)


def move(rng: random.Random, site: Site, world: World) -> Operation:
    """To one of the storage partitions, where the date may be already."""
    model = any_table(rng, world)
    date = some_dates(rng, site, model)[0]
    words = ("dates", "move", model.name, "--dates", date, "--to", rng.choice(site.partitions))
    change = partial(on, model.name, lambda after: after.move(date))
    return Operation("dates move", words, (change,), either=has_no_rows(model, date))


def expire(rng: random.Random, site: Site, world: World) -> Operation:
    """All dates are old: those that intraday has no more are dropped, the others fail. ``m`` is no unit."""
    model = any_table(rng, world)
    keep = rng.choice(("100d", "6 months", "1 year", "6M", "12m"))
    if keep[-1] in "mM":
        return Operation("dates expire", ("dates", "expire", model.name, "--keep", keep, "--yes"), (_refuse,))
    merged = [date for date in model.dates() if (record := model.record(date)) is not None and record.rows]
    gone = [date for date in merged if not model.standing(date)]
    changes = tuple(partial(on, model.name, partial(_drop, date)) for date in gone)
    empty = any(has_no_rows(model, date) for date in model.dates())
    words = ("dates", "expire", model.name, "--keep", keep, "--yes")
    return Operation("dates expire", words, changes, code=int(len(gone) < len(merged)), either=empty)


def _drop(date: str, model: Model) -> None:
    model.drop(date)


def _refuse(world: World) -> None:
    raise Refused("it may mean something else")


def truncate(rng: random.Random, site: Site, world: World) -> Operation:
    """One date; it ends with 1 at the first stream with rows that are not merged."""
    model = any_table(rng, world)
    date, fails = some_dates(rng, site, model)[0], False
    with suppress(Refused):
        fails = model.covered(date)[1]
    change = partial(on, model.name, lambda after: after.truncate(date))
    words, either = ("truncate", model.name, "--dates", date), has_no_rows(model, date)
    return Operation("truncate", words, (change,), code=int(fails), either=either)


def delete(rng: random.Random, site: Site, world: World) -> Operation | None:
    """One that was killed may have done it: then nothing is left to delete, or files of which no log knows."""
    operation = on_date("delete", ("delete", "--grace", "0"), Model.delete)(rng, site, world)
    return replace(operation, again=(0, 2)) if operation else None


def detach(rng: random.Random, site: Site, world: World) -> Operation:
    """Into a directory of its own."""
    model = any_table(rng, world)
    date, out = some_dates(rng, site, model)[0], site.fresh("tape")
    out.mkdir()
    words = ("dates", "detach", model.name, "--dates", date, "--out", str(out))
    change = partial(on, model.name, lambda after: after.detach(date, str(out)))
    return Operation("dates detach", words, (change,), either=has_no_rows(model, date))


def attach(rng: random.Random, site: Site, world: World) -> Operation | None:
    """What was detached, as long as the schema is that of then."""
    model = any_table(rng, world)
    if not model.detached:
        return None
    out = rng.choice([*model.detached])
    _, rows = model.detached[out]
    keys = {column.key for column in model.columns} - {"Date"}
    either = any(row.keys() - {"Date"} != keys for row in rows)
    change = partial(on, model.name, lambda after: after.attach(out))
    return Operation("dates attach", ("dates", "attach", model.name, out), (change,), either=either)


def adopt(rng: random.Random, site: Site, world: World) -> Operation:
    """Where all stands as recorded there is nothing to adopt."""
    return Operation("dates adopt", ("dates", "adopt", any_table(rng, world).name))


def validated(model: Model, date: str) -> None:
    """Refused: never merged."""
    if model.record(date) is None:
        raise Refused("no history")
