"""The commands of a history: the words of each, and what it does to the model."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from tests.crash.histories.model import Model, Refused, Row, Rule

TABLE = "Nightly.Orders"
STREAM = "orders"
DATES = ("2024-03-04", "2024-03-05", "2024-03-06")
SOURCES = ("a", "b")
COLUMNS = ("Sym", "Key", "Price", "Source", "Date")  # of a ``Row``
SCHEMA = """<Table namespace="Nightly" name="Orders" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_by_first_grouping_column}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/><Column name="Key" dataType="int"/>
  <Column name="Price" dataType="long"/><Column name="Source" dataType="String" symbolTable="None"/>
  <Column name="At" dataType="Instant"/>
</Table>
"""
SETTINGS = f"""name = "{STREAM}"
table = "{TABLE}"
schema = "{TABLE}.schema"
[feed]
type = "files"
path = "feed/*.json"
format = "json"
max_per_trigger = {{ files = 1 }}
[partition]
internal = {{ column = "Source" }}
value = {{ column = "At", zone = "UTC" }}
max_past = "99999 d"
"""


@dataclass
class Site:
    """Where a history runs: its directory, and the root of now, which a restore changes."""

    base: Path
    root: Path
    snapshots: list[tuple[Path, Model]]

    @property
    def stream(self) -> Path:
        return self.base / f"{STREAM}.toml"


@dataclass(frozen=True)
class Operation:
    """A command of a history.

    ``changes`` are the steps that it takes in the model, each visible as a whole; Refused: the command has to refuse.
    ``done``: whether it was done below a root, for a command that would do it again. ``code``: how it ends.
    ``again``: how else, where one that was killed is run again. ``either``: it may also refuse, and change nothing,
    since the model does not know whether history without rows has files.
    """

    name: str
    words: tuple[str, ...]
    changes: tuple[Callable[[Model], object], ...] = ()
    done: Callable[[Path], bool] | None = None
    code: int = 0
    again: tuple[int, ...] = ()
    either: bool = False

    def states(self, model: Model) -> list[Model]:
        """The model after each step; empty if the command has to refuse."""
        states = [model]
        try:
            for change in self.changes:
                states.append(states[-1].copy())
                change(states[-1])
        except Refused:
            return []
        return states[1:] or [model]


def lay_out(base: Path, late: str) -> Site:
    """A new directory with schema and stream file. ``late``: what becomes of rows for truncated dates."""
    (base / "feed").mkdir(parents=True)
    (base / f"{TABLE}.schema").write_text(SCHEMA)
    (base / f"{STREAM}.toml").write_text(f'{SETTINGS}late = "{late}"\n')
    return Site(base, base / "db", [])


def ingest(rng: random.Random, site: Site, model: Model) -> Operation:
    """New files, with late rows and doubles among theirs."""
    before = [row for rows in model.feed for row in rows]
    for _ in range(rng.randint(1, 2)):
        rows = [_row(rng) for _ in range(rng.randint(1, 4))]
        rows += rng.choices(before, k=rng.randint(0, 3)) if before else []
        text = "".join(_line(row) + "\n" for row in rows)
        (site.base / "feed" / f"{len(model.feed):04d}.json").write_text(text)
        model.feed.append(rows)
        before += rows
    waiting = len(model.feed) - model.now.files
    return Operation("ingest", ("ingest", str(site.stream), "--once"), (Model.ingest_file,) * waiting)


def _line(row: Row) -> str:
    *values, date = row
    return json.dumps({**dict(zip(COLUMNS, values, strict=False)), "At": f"{date}T12:00:00Z"})


def _row(rng: random.Random) -> Row:
    key = rng.randint(1, 5)
    return Row(f"s{key % 3}", key, rng.choice((None, *range(4))), rng.choice(SOURCES), rng.choice(DATES))


def merge(rng: random.Random, site: Site, model: Model) -> Operation:
    """One date or all, as it comes: again, in another format, with another rule."""
    del site
    dates = _dates(rng, model)
    words, rule, ends = ["merge", TABLE, "--dates", ",".join(dates)], None, False
    match rng.randrange(6):
        case 0:
            keep = rng.choice(("first", "last"))
            rule = Rule(keep, order_by_price=rng.random() < 0.5)
            words += ["--dedupe", "Key", "--keep", keep]
        case 1:
            rule = Rule("last", order_by_price=rng.random() < 0.5)
            words += ["--last-by", "Key"]
        case 2:
            rule = Rule("last", upsert=True)
            words += ["--upsert", "Key"]
        case 3:
            ends = True
            words += ["--dedupe", "none"]
    if rule and rule.order_by_price:
        words += ["--order-by", "Price"]
    rewrite = rng.random() < 0.3
    words += ["--rewrite"] if rewrite else []
    words += ["--format", rng.choice(("deephaven", "parquet", "both"))] if rng.random() < 0.4 else []
    change = partial(_merge, rewrite=rewrite, rule=rule, ends_rule=ends)
    return Operation("merge", tuple(words), tuple(partial(change, date) for date in dates))


def _merge(date: str, model: Model, *, rewrite: bool, rule: Rule | None, ends_rule: bool) -> None:
    model.merge(date, rewrite=rewrite, rule=rule, ends_rule=ends_rule)


def _dates(rng: random.Random, model: Model) -> list[str]:
    dates = model.dates() or [DATES[0]]
    return [rng.choice(dates)] if rng.random() < 0.7 else dates


def on_date(name: str, words: tuple[str, ...], change: Callable[[Model, str], None]) -> Draw:
    """A command on one date that a model method follows."""

    def draw(rng: random.Random, site: Site, model: Model) -> Operation:
        del site
        date = _dates(rng, model)[0]
        line = (*words[: len(name.split())], TABLE, "--dates", date, *words[len(name.split()) :])
        either = name == "dates drop" and has_no_rows(model, date)
        return Operation(name, line, (lambda after: change(after, date),), either=either)

    return draw


def has_no_rows(model: Model, date: str) -> bool:
    """Whether a date was merged, and history has no row of it."""
    record = model.record(date)
    return record is not None and not record.rows


def move(rng: random.Random, site: Site, model: Model) -> Operation:
    """To one of the two storage partitions, where the date may be already."""
    del site
    date = _dates(rng, model)[0]
    words = ("dates", "move", TABLE, "--dates", date, "--to", rng.choice("01"))
    return Operation("dates move", words, (lambda after: after.move(date),), either=has_no_rows(model, date))


def correct(rng: random.Random, site: Site, model: Model) -> Operation:
    """Other prices, each time by another number: the same command again changes nothing."""
    del site
    date, more = _dates(rng, model)[0], rng.randint(10, 10**9)
    words = ("rewrite-column", TABLE, "--dates", date, "--set", f"Price=coalesce(Price, 0) + {more}")
    change = (lambda after: after.correct(date, more),)
    return Operation("rewrite-column", words, change, either=has_no_rows(model, date))


def expire(rng: random.Random, site: Site, model: Model) -> Operation:
    """All dates are old: those that intraday has no more are dropped, the others fail."""
    del rng, site
    merged = [date for date in model.dates() if (record := model.record(date)) is not None and record.rows]
    gone = [date for date in merged if not model.standing(date)]
    changes = tuple(partial(_drop, date) for date in gone)
    empty = any(has_no_rows(model, date) for date in model.dates())
    words = ("dates", "expire", TABLE, "--keep", "100d", "--yes")
    return Operation("dates expire", words, changes, code=int(len(gone) < len(merged)), either=empty)


def _drop(date: str, model: Model) -> None:
    model.drop(date)


def delete(rng: random.Random, site: Site, model: Model) -> Operation:
    """One that was killed may have done it: then nothing is left to delete, or files of which no log knows."""
    operation = on_date("delete", ("delete", "--grace", "0"), Model.delete)(rng, site, model)
    return replace(operation, again=(0, 2))


def rollback(rng: random.Random, site: Site, model: Model) -> Operation:
    """To any epoch that is kept."""
    del site
    epoch = rng.choice(sorted(model.epochs)[:-1] or [model.newest])
    words = ("epochs", "rollback", TABLE, STREAM, "--to", str(epoch))
    newest = model.newest
    return Operation(
        "rollback", words, (lambda after: after.rollback(epoch),), lambda root: _state(root).epoch > newest
    )


def undo(rng: random.Random, site: Site, model: Model) -> Operation:
    """A recent epoch, or any number."""
    del site
    epoch = rng.choice([*sorted(model.added)[-4:], rng.randint(1, model.newest + 1)])
    words = ("epochs", "undo", TABLE, STREAM, "--epoch", str(epoch))
    newest = model.newest
    return Operation("undo", words, (lambda after: after.undo(epoch),), lambda root: _state(root).epoch > newest)


def delete_rows(rng: random.Random, site: Site, model: Model) -> Operation:
    """The rows of a key, of one date or all."""
    del site
    dates, key = _dates(rng, model), rng.randint(1, 5)
    words = ("delete-rows", TABLE, "--where", f"Key = {key}", "--dates", ",".join(dates))
    changes = (partial(_withdraw, key, dates), *(partial(_delete_merged, key, date) for date in dates))
    return Operation("delete-rows", words, changes)


def _withdraw(key: int, dates: list[str], model: Model) -> None:
    model.withdraw_rows(key, dates)


def _delete_merged(key: int, date: str, model: Model) -> None:
    model.delete_merged(key, date)


def _state(root: Path) -> StreamState:
    return load_stream(StreamPlace(Fs(), Layout(root), TableName.parse(TABLE), STREAM))


def snapshot(rng: random.Random, site: Site, model: Model) -> Operation:
    """A copy of all tables; every second one since the last."""
    out = site.base / f"snapshot{len(site.snapshots)}"
    since = ("--since", str(site.snapshots[-1][0])) if site.snapshots and rng.random() < 0.5 else ()
    site.snapshots.append((out, model.restored()))
    return Operation(
        "snapshot", ("snapshot", "--out", str(out), *since), done=lambda root: (out / "snapshot.json").exists()
    )


Draw = Callable[[random.Random, Site, Model], Operation]
DRAWS: dict[str, tuple[int, Draw]] = {  # how often, by weight
    "ingest": (6, ingest),
    "merge": (7, merge),
    "validate": (1, on_date("validate", ("validate",), lambda model, date: _validated(model, date))),
    "truncate": (3, on_date("truncate", ("truncate",), Model.truncate)),
    "delete": (3, delete),
    "drop": (1, on_date("dates drop", ("dates", "drop"), Model.drop)),
    "expire": (1, expire),
    "move": (2, move),
    "rewrite-column": (3, correct),
    "rollback": (2, rollback),
    "undo": (3, undo),
    "delete-rows": (2, delete_rows),
    "snapshot": (2, snapshot),
    "recover": (1, lambda rng, site, model: Operation("recover", ("recover",))),
    "clean": (1, lambda rng, site, model: Operation("clean", ("clean",))),
}


def _validated(model: Model, date: str) -> None:
    if model.record(date) is None:
        raise Refused("no history")
