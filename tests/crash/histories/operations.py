"""The commands of a history: the words of each, and what it does to the model."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from tests.crash.histories.columns import KINDS, PLAIN, WIDER, Col
from tests.crash.histories.doors import check_tree
from tests.crash.histories.model import Model, Refused, Row, Rule
from tests.crash.histories.predicates import Predicate, draw_predicate
from tests.crash.histories.world import (
    BASE,
    DATES,
    KEY,
    KEYS,
    NAMESPACE,
    Feed,
    Site,
    World,
    arrow_rows,
    feed_more,
    indexed,
    write_schema,
)

REFUSED = (1, 2)
Change = Callable[[World], object]


@dataclass(frozen=True)
class Operation:
    """A command of a history.

    ``changes`` are the steps that it takes in the model, each visible as a whole; Refused: the command has to refuse.
    ``done``: whether it was done below a root, for a command that would do it again. ``code``: how it ends.
    ``again``: how else, where one that was killed is run again. ``either``: it may also refuse, and change nothing,
    since the model does not know what files there are; or find nothing to do, where it has to refuse. ``after``: what
    follows once it was done.
    """

    name: str
    words: tuple[str, ...]
    changes: tuple[Change, ...] = ()
    done: Callable[[Path], bool] | None = None
    code: int = 0
    again: tuple[int, ...] = ()
    either: bool = False
    after: Callable[[World], object] = lambda world: None

    def states(self, world: World) -> list[World]:
        """The worlds after each step; empty if the command has to refuse."""
        states = [world]
        try:
            for change in self.changes:
                states.append(states[-1].copy())
                change(states[-1])
        except Refused:
            return []
        return states[1:] or [world]


Draw = Callable[[random.Random, Site, World], Operation | None]


def _table(rng: random.Random, world: World) -> Model:
    return world.tables[rng.choice([*world.tables])]


def _dates(rng: random.Random, site: Site, model: Model) -> list[str]:
    dates = model.dates() or [DATES[0]]
    if site.focus in dates and rng.random() < 0.6:
        return [site.focus]
    return [rng.choice(dates)] if rng.random() < 0.7 else dates


def _has_no_rows(model: Model, date: str) -> bool:
    """Whether a date was merged, and history has no row of it."""
    record = model.record(date)
    return record is not None and not record.rows


def _on(name: str, change: Callable[[Model], object], world: World) -> None:
    change(world.tables[name])


def _some_rows(rng: random.Random, model: Model, dates: Iterable[str] | None = None) -> list[Row]:
    rows = model.visible()
    wanted = {*dates} if dates is not None else None
    rows = [row for row in rows if wanted is None or row["Date"] in wanted]
    return rng.sample(rows, min(len(rows), 40))


# --- streams -------------------------------------------------------------------------------------------------


def ingest(rng: random.Random, site: Site, world: World) -> Operation:
    """New files of a stream, into each of its tables."""
    feed = world.feeds[rng.choice([*world.feeds])]
    feed_more(rng, site, world, feed)
    return Operation("ingest", ("ingest", str(site.stream(feed.stream)), "--once"), tuple(_waiting(world, feed)))


def _waiting(world: World, feed: Feed) -> Iterable[Change]:
    """A step for each file and table that has not taken it."""
    taken = {table: world.tables[table].streams[feed.stream].now.files for table in feed.tables}
    for table in feed.tables:
        if len(feed.tables) > 1 and not world.tables[table].streams[feed.stream].exists:
            yield partial(_begin, table, feed.stream)
    for number in range(min(taken.values()), len(feed.files)):
        for table in feed.tables:
            if taken[table] <= number:
                yield partial(_take, table, feed, number)


def _begin(table: str, stream: str, world: World) -> None:
    """The first epoch of one of several tables has no rows: it says where the table begins."""
    state = world.tables[table].streams[stream]
    state.added[state.newest + 1] = {}
    state.commit(state.now)


def _take(table: str, feed: Feed, number: int, world: World) -> None:
    model = world.tables[table]
    model.ingest_file(feed.stream, *feed.rows_of(model, number))


def rollback(rng: random.Random, site: Site, world: World) -> Operation | None:
    """To any epoch that is kept."""
    model, stream = _stream(rng, world)
    state = model.streams[stream]
    if not state.exists:
        return None
    epoch = rng.choice([*([0] if 0 in state.epochs and not state.base else []), *state.older] or [state.newest])
    words = ("epochs", "rollback", model.name, stream, "--to", str(epoch))
    change = partial(_on, model.name, lambda after: after.rollback(stream, epoch))
    return Operation("rollback", words, (change,), partial(_is_after, model.name, stream, state.newest))


def undo(rng: random.Random, site: Site, world: World) -> Operation | None:
    """A recent epoch, or any number."""
    model, stream = _stream(rng, world)
    state = model.streams[stream]
    if not state.exists:
        return None
    epoch = rng.choice([*sorted(state.added)[-4:], rng.randint(1, state.newest + 1)])
    words = ("epochs", "undo", model.name, stream, "--epoch", str(epoch))
    change = partial(_on, model.name, lambda after: after.undo(stream, epoch))
    return Operation("undo", words, (change,), partial(_is_after, model.name, stream, state.newest))


def _stream(rng: random.Random, world: World) -> tuple[Model, str]:
    model = _table(rng, world)
    return model, rng.choice([*model.streams])


def _is_after(table: str, stream: str, epoch: int, root: Path) -> bool:
    return load_stream(StreamPlace(Fs(), Layout(root), TableName.parse(table), stream)).epoch > epoch


def remove_stream(rng: random.Random, site: Site, world: World) -> Operation | None:
    """One of which no row is left; its files are moved away, so that a new one of its name begins with new files."""
    model, stream = _stream(rng, world)
    feed = world.feeds[stream]
    if len(feed.tables) > 1 or not model.streams[stream].exists:
        return None

    def forget(after: World) -> None:
        for path in (site.base / stream).iterdir():
            path.unlink()
        feed.files.clear()

    change = partial(_on, model.name, lambda after: after.remove_stream(stream))
    words = ("streams", "remove", model.name, stream)
    return Operation("streams remove", words, (change,), again=(2,), after=forget)


# --- merges --------------------------------------------------------------------------------------------------


def merge(rng: random.Random, site: Site, world: World) -> Operation:
    """One date or all, as it comes: again, in another format, with another rule."""
    model = _table(rng, world)
    dates = _dates(rng, site, model)
    words, rule, ends = ["merge", model.name, "--local", "--dates", ",".join(dates)], None, False
    match rng.randrange(6) if not site.sorts else 6:
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
        case 6 if rng.random() < 0.6:
            column = rng.choice(
                [KEY, *(c for c in model.columns if c.kind.key and c.name != "Date" and rng.random() < 0.2)]
            )
            words += ["--sort", f"{column.name}:desc" if rng.random() < 0.5 else column.name]
    if rule and rule.order_by_price:
        words += ["--order-by", "Price"]
    rewrite = rng.random() < 0.3
    words += ["--rewrite"] if rewrite else []
    words += ["--format", rng.choice(("deephaven", "parquet", "both"))] if rng.random() < 0.4 else []
    words += ["--only-partitions", rng.choice(site.partitions)] if rng.random() < 0.15 else []
    words += ["--max-supplements", "4"] if rng.random() < 0.1 else []

    def step(date: str, after: Model) -> None:
        after.merge(date, rewrite=rewrite, rule=rule, ends_rule=ends)

    changes = tuple(partial(_on, model.name, partial(step, date)) for date in dates)
    return Operation("merge", tuple(words), changes)


def bring(rng: random.Random, site: Site, world: World) -> Operation | None:
    """Rows of a tree of Parquet files, as history of one or two dates."""
    model = _table(rng, world)
    source = site.fresh("tree")
    date = _dates(rng, site, model)[0]
    rows = [dict(row, Price=rng.choice((None, 5, 6, 7))) for row in _some_rows(rng, model, [date])[:4]]
    if not rows:
        return None
    columns = [column for column in model.columns if column.name != "Date"]
    (source / f"Date={date}").mkdir(parents=True)
    pq.write_table(arrow_rows(columns, rows), source / f"Date={date}" / "rows.parquet")
    upserts = rng.random() < 0.3 and not site.sorts
    replaces = not upserts and rng.random() < 0.5
    words = ["import", model.name, "--from", str(source)]
    words += ["--upsert", "Key"] if upserts else ["--replace"] if replaces else []

    def step(after: Model) -> None:
        after.bring(date, rows, replaces=replaces, upserts=upserts)

    return Operation("import", tuple(words), (partial(_on, model.name, step),))


# --- corrections ---------------------------------------------------------------------------------------------


def correct(rng: random.Random, site: Site, world: World) -> Operation:
    """Other prices, each time by another number: the same command again changes nothing."""
    model = _table(rng, world)
    date, more = _dates(rng, site, model)[0], rng.randint(10, 10**9)
    words = _rewrite(model, date, f"Price=coalesce(Price, 0) + {more}")

    def change(row: Row) -> Row:
        return {**row, "Price": (row["Price"] or 0) + more}

    return _rewritten(model, date, words, change)


def swap(rng: random.Random, site: Site, world: World) -> Operation | None:
    """Two values of a column change places among its rows, so that the column as a whole has the same values."""
    model = _table(rng, world)
    date = _dates(rng, site, model)[0]
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
    model = _table(rng, world)
    pairs = [
        (a, b)
        for a in model.columns
        for b in model.columns
        if a.key < b.key and a.kind is b.kind and not {a.name, b.name} & {"Date", "Sym", "Key", "Source", "At"}
    ]
    date = _dates(rng, site, model)[0]
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
    step = partial(_on, model.name, lambda after: after.rewrite(date, change))
    return Operation("rewrite-column", tuple(words), (step,), either=_has_no_rows(model, date))


def delete_rows(rng: random.Random, site: Site, world: World) -> Operation:
    """The rows that a filter holds for, of one date or all."""
    model = _table(rng, world)
    dates = _dates(rng, site, model)
    columns = [column for column in model.columns if column.name not in ("Date", "At")]
    where = draw_predicate(rng, columns, _some_rows(rng, model, dates), [*indexed(model)])
    if rng.random() < 0.4:  # the first and the last rows of a date that was sorted, and none between
        where = Predicate("in", KEY, (KEYS[0], KEYS[-1]))
    words = ("delete-rows", model.name, "--where", where.text(), "--dates", ",".join(dates))
    changes = [partial(_on, model.name, partial(_require_dates, dates))]
    changes += [
        partial(_on, model.name, partial(_withdraw, name, where, dates))
        for name, stream in model.streams.items()
        if stream.exists
    ]
    changes += [partial(_on, model.name, partial(_delete_merged, where, date)) for date in dates]
    return Operation("delete-rows", words, tuple(changes))


def _require_dates(dates: Sequence[str], model: Model) -> None:
    if not {*dates} <= {*model.dates()}:
        raise Refused("no such date")


def _withdraw(stream: str, where: Predicate, dates: Sequence[str], model: Model) -> None:
    model.withdraw_rows(stream, where.holds, dates)


def _delete_merged(where: Predicate, date: str, model: Model) -> None:
    model.delete_merged(where.holds, date)


# --- dates ---------------------------------------------------------------------------------------------------


def on_date(name: str, words: tuple[str, ...], change: Callable[[Model, str], None]) -> Draw:
    """A command on one date that a model method follows."""

    def draw(rng: random.Random, site: Site, world: World) -> Operation:
        model = _table(rng, world)
        date = _dates(rng, site, model)[0]
        head = len(name.split())
        line = (*words[:head], model.name, "--dates", date, *words[head:])
        either = _has_no_rows(model, date)
        return Operation(name, line, (partial(_on, model.name, lambda after: change(after, date)),), either=either)

    return draw


def on_all_dates(name: str, words: tuple[str, ...], change: Callable[[Model, str], None]) -> Draw:
    """The same on every date of a table for which it is possible."""

    def draw(rng: random.Random, site: Site, world: World) -> Operation | None:
        model, dates = _table(rng, world), list[str]()
        for date in model.dates():
            if name != "merge" and _has_no_rows(model, date):
                continue  # nobody knows whether it was validated
            with suppress(Refused):
                change(model.copy(), date)
                dates.append(date)
        if not dates:
            return None
        line = (words[0], model.name, "--dates", ",".join(dates), *words[1:])
        changes = tuple(partial(_on, model.name, partial(_change_date, change, date)) for date in dates)
        return Operation(name, line, changes, again=(0, 2) if name == "delete" else ())

    return draw


def _change_date(change: Callable[[Model, str], None], date: str, model: Model) -> None:
    change(model, date)


def _merge_plainly(model: Model, date: str) -> None:
    model.merge(date, rewrite=False, rule=None, ends_rule=False)


def _merge_anew(model: Model, date: str) -> None:
    model.merge(date, rewrite=True, rule=None, ends_rule=False)


def merge_sorted(rng: random.Random, site: Site, world: World) -> Operation | None:
    """All dates by key, so that statistics tell where each key lies; where rules of duplicates do not ask for order."""
    words = ("merge", "--local", "--rewrite", "--sort", "Key")
    return on_all_dates("merge", words, _merge_anew)(rng, site, world) if site.sorts else None


def move(rng: random.Random, site: Site, world: World) -> Operation:
    """To one of the storage partitions, where the date may be already."""
    model = _table(rng, world)
    date = _dates(rng, site, model)[0]
    words = ("dates", "move", model.name, "--dates", date, "--to", rng.choice(site.partitions))
    change = partial(_on, model.name, lambda after: after.move(date))
    return Operation("dates move", words, (change,), either=_has_no_rows(model, date))


def expire(rng: random.Random, site: Site, world: World) -> Operation:
    """All dates are old: those that intraday has no more are dropped, the others fail. ``m`` is no unit."""
    model = _table(rng, world)
    keep = rng.choice(("100d", "6 months", "1 year", "6M", "12m"))
    if keep[-1] in "mM":
        return Operation("dates expire", ("dates", "expire", model.name, "--keep", keep, "--yes"), (_refuse,))
    merged = [date for date in model.dates() if (record := model.record(date)) is not None and record.rows]
    gone = [date for date in merged if not model.standing(date)]
    changes = tuple(partial(_on, model.name, partial(_drop, date)) for date in gone)
    empty = any(_has_no_rows(model, date) for date in model.dates())
    words = ("dates", "expire", model.name, "--keep", keep, "--yes")
    return Operation("dates expire", words, changes, code=int(len(gone) < len(merged)), either=empty)


def _drop(date: str, model: Model) -> None:
    model.drop(date)


def _refuse(world: World) -> None:
    raise Refused("it may mean something else")


def truncate(rng: random.Random, site: Site, world: World) -> Operation:
    """One date; it ends with 1 at the first stream with rows that are not merged."""
    model = _table(rng, world)
    date, fails = _dates(rng, site, model)[0], False
    with suppress(Refused):
        fails = model.covered(date)[1]
    change = partial(_on, model.name, lambda after: after.truncate(date))
    words, either = ("truncate", model.name, "--dates", date), _has_no_rows(model, date)
    return Operation("truncate", words, (change,), code=int(fails), either=either)


def delete(rng: random.Random, site: Site, world: World) -> Operation | None:
    """One that was killed may have done it: then nothing is left to delete, or files of which no log knows."""
    operation = on_date("delete", ("delete", "--grace", "0"), Model.delete)(rng, site, world)
    return replace(operation, again=(0, 2)) if operation else None


def detach(rng: random.Random, site: Site, world: World) -> Operation:
    """Into a directory of its own."""
    model = _table(rng, world)
    date, out = _dates(rng, site, model)[0], site.fresh("tape")
    out.mkdir()
    words = ("dates", "detach", model.name, "--dates", date, "--out", str(out))
    change = partial(_on, model.name, lambda after: after.detach(date, str(out)))
    return Operation("dates detach", words, (change,), either=_has_no_rows(model, date))


def attach(rng: random.Random, site: Site, world: World) -> Operation | None:
    """What was detached, as long as the schema is that of then."""
    model = _table(rng, world)
    if not model.detached:
        return None
    out = rng.choice([*model.detached])
    _, rows = model.detached[out]
    keys = {column.key for column in model.columns} - {"Date"}
    either = any(row.keys() - {"Date"} != keys for row in rows)
    change = partial(_on, model.name, lambda after: after.attach(out))
    return Operation("dates attach", ("dates", "attach", model.name, out), (change,), either=either)


def validated(model: Model, date: str) -> None:
    """Refused: never merged."""
    if model.record(date) is None:
        raise Refused("no history")


# --- schemas -------------------------------------------------------------------------------------------------


def deploy(rng: random.Random, site: Site, world: World) -> Operation | None:
    """A column more, one less, one with another name or a wider type."""
    model = _table(rng, world)
    extra = [column for column in model.columns if column.name not in {base.name for base in BASE}]
    site.numbers += 1
    fresh = f"Y{site.numbers}"
    as_json = any(feed.form == "json" for feed in world.feeds.values() if model.name in feed.tables)
    added = Col(fresh, fresh, rng.choice([k for k in (*PLAIN, *KINDS.values()) if k.json or not as_json]))
    kind = rng.choice(("add", "add", "drop", "rename", "rename", "widen", "rename and add", "swap"))
    chosen = rng.choice(extra) if extra else None
    columns, words = list(model.columns), tuple[str, ...]()
    if kind == "add" or chosen is None:
        columns.insert(rng.randint(1, len(columns)), added)
    elif kind == "drop":
        columns.remove(chosen)
        words = ("--drop", chosen.name)
    elif kind == "widen":
        if chosen.kind.name not in WIDER or chosen.role:
            return None
        # without values that the files of before cannot take
        wider = replace(KINDS[WIDER[chosen.kind.name]], pool=chosen.kind.pool)
        columns[columns.index(chosen)] = replace(chosen, kind=wider)
    elif kind == "swap":
        other = rng.choice(extra)
        if other == chosen:
            return None
        columns[columns.index(chosen)] = replace(chosen, name=other.name)
        columns[columns.index(other)] = replace(other, name=chosen.name)
        words = ("--rename", f"{chosen.name}={other.name}", "--rename", f"{other.name}={chosen.name}")
    else:
        columns[columns.index(chosen)] = replace(chosen, name=fresh)
        words = ("--rename", f"{chosen.name}={fresh}")
        if kind == "rename and add":  # another column under the old name
            columns.append(Col(fresh + "new", chosen.name, rng.choice((chosen.kind, added.kind))))
    after = replace(model.copy(), columns=tuple(columns))
    write_schema(site, after)

    def change(world: World) -> None:
        world.tables[model.name] = replace(world.tables[model.name], columns=tuple(columns))

    words = ("schema", "deploy", str(site.schema(model.name)), *words)
    return Operation("schema deploy", words, (change,), again=(2,))


# --- copies --------------------------------------------------------------------------------------------------


def snapshot(rng: random.Random, site: Site, world: World) -> Operation:
    """A copy of all tables; every second one since the last."""
    out = site.fresh("snapshot")
    since = ("--since", str(site.snapshots[-1][0])) if site.snapshots and rng.random() < 0.5 else ()

    def keep(after: World) -> None:
        site.snapshots.append((out, after.restored()))

    words = ("snapshot", "--out", str(out), *since)
    return Operation("snapshot", words, done=lambda root: (out / "snapshot.json").exists(), after=keep)


def mirror(rng: random.Random, site: Site, world: World) -> Operation:
    """The mirror of this root is brought up to date."""
    out = site.base / f"mirror-of-{site.root.name}"

    def keep(after: World) -> None:
        site.mirrors[out] = after.restored()

    return Operation("mirror", ("mirror", str(site.root), str(out)), after=keep, either=site.root in site.replaced)


def plain(*words: str) -> Draw:
    """A command that changes no row."""
    return lambda rng, site, world: Operation(words[0], words)


def add_partition(rng: random.Random, site: Site, world: World) -> Operation:
    """One more, or one that is there."""
    name = str(rng.randint(0, 3))

    def keep(after: World) -> None:
        site.partitions = tuple(sorted({*site.partitions, name}))

    return Operation("partitions add", ("partitions", "add", NAMESPACE, name), after=keep)


def roll(rng: random.Random, site: Site, world: World) -> Operation:
    """Merges write to new storage partitions from then on, where the volume is full enough."""
    fuller = rng.choice(("99%", "1%"))
    return Operation("partitions roll", ("partitions", "roll", NAMESPACE, "--if-fuller-than", fuller), either=True)


def export(rng: random.Random, site: Site, world: World) -> Operation | None:
    """A tree of all rows, or of those of history, in a new directory or in the place of the last one."""
    model = _table(rng, world)
    layout, tier = rng.choice(("nested", "flat", "kv", "metadata", "hive")), rng.choice(("all", "all", "history"))
    replaces = bool(site.trees) and rng.random() < 0.4
    out = rng.choice(site.trees) if replaces else site.fresh("export")
    words = ("export", model.name, "--out", str(out), "--layout", layout, "--tier", tier)
    rows = model.visible() if tier == "all" else model.merged_rows()

    def require_rows(after: World) -> None:
        if not rows:
            raise Refused("there are no rows to export")

    def keep(after: World) -> None:
        site.trees.append(out)
        check_tree(out, model, rows, "the export")

    change = partial(require_rows)
    return Operation("export", (*words, *(["--replace"] if replaces else [])), (change,), after=keep)


def drop_quarantine(rng: random.Random, site: Site, world: World) -> Operation | None:
    """All rejected rows of a stream, which are no rows of the table."""
    model, stream = _stream(rng, world)
    if not model.streams[stream].exists:
        return None
    return Operation("quarantine drop", ("quarantine", "drop", model.name, stream, "--all"))


DRAWS: dict[str, tuple[float, Draw]] = {  # how often, by weight
    "ingest": (6, ingest),
    "merge": (7, merge),
    "import": (1, bring),
    "validate": (0.7, on_date("validate", ("validate",), validated)),
    "truncate": (3, truncate),
    "delete": (3, delete),
    "dates drop": (1, on_date("dates drop", ("dates", "drop"), Model.drop)),
    "dates expire": (1, expire),
    "dates move": (2, move),
    "dates detach": (2, detach),
    "dates attach": (2, attach),
    "correct": (1.5, correct),
    "swap": (2.5, swap),
    "exchange": (1, exchange),
    "rollback": (2, rollback),
    "undo": (2, undo),
    "delete-rows": (4, delete_rows),
    "streams remove": (1.5, remove_stream),
    "schema deploy": (1.5, deploy),
    "snapshot": (2, snapshot),
    "mirror": (2, mirror),
    "merge sorted": (0.7, merge_sorted),
    "merge all": (1, on_all_dates("merge", ("merge", "--local"), _merge_plainly)),
    "truncate all": (0.7, on_all_dates("truncate", ("truncate",), Model.truncate_whole)),
    "delete all": (0.7, on_all_dates("delete", ("delete", "--grace", "0"), Model.delete)),
    "recover": (0.7, plain("recover")),
    "clean": (0.7, plain("clean")),
    "metadata update": (0.4, plain("metadata", "update")),
    "partitions add": (0.3, add_partition),
    "partitions roll": (0.3, roll),
    "export": (1, export),
    "migrate": (0.3, plain("migrate")),
    "quarantine drop": (0.3, drop_quarantine),
}
