"""What a random history works on: tables, streams with their feeds, and the directory that all of it lies in."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.crash.histories.columns import KINDS, PLAIN, Col, Kind
from tests.crash.histories.model import Model, Row, Stream, UserTable

NAMESPACE = "Night"
DATES = ("2024-03-04", "2024-03-05", "2024-03-06")
PARTITIONING = ' columnType="Partitioning"'
GROUPING = ' columnType="Grouping"'
KEYS = range(1, 6)
FORMULA_KINDS = (
    "symbol",
    "Boolean",
    "char",
    "byte",
    "short",
    "int",
    "long",
)  # of grouping columns that a formula takes
DATE = Col("Date", "Date", KINDS["symbol"], PARTITIONING)
SYM, KEY, PRICE = (
    Col(name, name, KINDS[kind]) for name, kind in (("Sym", "symbol"), ("Key", "int"), ("Price", "long"))
)
SOURCE, INSTANT_OF_ROW = Col("Source", "Source", KINDS["text"]), Col("At", "At", KINDS["Instant"])
BASE = (DATE, SYM, KEY, PRICE, SOURCE, INSTANT_OF_ROW)
KIND_FIELD = "Kind"
TREES = {
    "parquet:flat": "flat",
    "parquet:kv": "kv",
    "parquet:metadata": "metadata",
    'coreplus:hive" format="Parquet': "hive",
}
"""Types of ``ExtendedStorage`` with Parquet files, and the layout of the tree of each."""
Shown = Model | UserTable
FileRow = dict[str, Any]
"""A row of a file, by the names that columns had when it was written; ``Kind`` is the table that it is for."""


@dataclass(frozen=True)
class FedFile:
    """A file of a feed: its rows, and the type of each of its fields."""

    rows: Sequence[FileRow]
    kinds: Mapping[str, Kind]


@dataclass
class Feed:
    """The files of a stream. ``null_alias``: a value that stands for null is stored, as null, and not rejected."""

    stream: str
    tables: tuple[str, ...]
    sources: tuple[str, ...]
    form: str
    null_alias: bool
    takes_late: bool
    files: list[FedFile] = field(default_factory=list)
    written: int = 0

    def rows_of(self, model: Model, number: int) -> tuple[list[Row], int]:
        """The rows that a file has for a table, by its columns of now, and how many of them cannot be stored."""
        rows, bad = list[Row](), 0
        for fed in self.files[number].rows:
            if fed[KIND_FIELD] != model.name:
                continue
            row = {column.key: fed.get(column.name) for column in model.columns if column is not DATE}
            nulled = [
                column.key
                for column in model.columns
                if column.kind.null_value is not None and row.get(column.key) == column.kind.null_value
            ]
            outside = any(row.get(column.key) in column.kind.outside for column in model.columns if column.kind.outside)
            if outside or (nulled and not self.null_alias):
                bad += 1
                continue
            rows.append({**row, **dict.fromkeys(nulled), "Date": fed["Date"]})
        return rows, bad


@dataclass
class World:
    """The tables as they are, and the feeds, which no step takes back. ``users``: what users have saved."""

    tables: dict[str, Model]
    feeds: dict[str, Feed]
    users: dict[str, UserTable] = field(default_factory=dict)

    def written(self) -> Iterator[Shown]:
        """The tables that somebody has written to, each with its rows."""
        for model in self.tables.values():
            if any(stream.newest for stream in model.streams.values()):
                yield model
        yield from self.users.values()

    def table(self, name: str) -> Shown | None:
        """A table of this name; None: nobody has saved it."""
        return self.tables.get(name) or self.users.get(name)

    def with_tables_of(self, other: World, names: Iterable[str]) -> World:
        """Tables of these names as another world has them."""
        after, other = self.copy(), other.copy()
        after.tables |= {name: other.tables[name] for name in names if name in other.tables}
        after.users |= {name: other.users[name] for name in names if name in other.users}
        return after

    def copy(self) -> World:
        return replace(self, tables={name: model.copy() for name, model in self.tables.items()}, users=dict(self.users))

    def restored(self) -> World:
        """As a snapshot of now has it."""
        tables = {name: model.restored() for name, model in self.tables.items()}
        return replace(self, tables=tables, users=dict(self.users))


@dataclass
class Site:
    """Where a history runs: its directory, the root of now, which a restore changes, and the copies that there are.

    ``snapshots`` and ``mirrors``: each with the tables that it has. ``small``: sizes from which files are cut into
    pieces are those of a handful of rows. ``most``: rows of a
    file, but of a ``big`` history. ``focus``: the date that most commands are about.
    ``replaced``: roots that a restore has put back, of which a mirror may be ahead. ``trees``: of exports, each with
    its table.
    """

    base: Path
    root: Path
    partitions: tuple[str, ...]
    form: str
    formula: str
    small: bool
    big: bool
    sorts: bool
    most: int
    snapshots: list[tuple[Path, World]] = field(default_factory=list)
    mirrors: dict[Path, World] = field(default_factory=dict)
    numbers: int = 0
    focus: str = DATES[0]
    replaced: set[Path] = field(default_factory=set)
    trees: dict[Path, str] = field(default_factory=dict)

    def fresh(self, name: str) -> Path:
        """A path of the site that nothing has had before."""
        self.numbers += 1
        return self.base / f"{name}{self.numbers}"

    def stream(self, name: str) -> Path:
        return self.base / f"{name}.toml"

    def schema(self, table: str) -> Path:
        return self.base / f"{table}.schema"


def draw_world(rng: random.Random, base: Path) -> tuple[Site, World]:
    """Tables, streams and their files, in a new directory."""
    big = rng.random() < 1 / 25
    rules = rng.random() < 0.6
    site = Site(
        base,
        base / "db",
        tuple("012"[: rng.randint(1, 3)]),
        rng.choice(("DeephavenV1", "DeephavenV1", "Parquet")),
        rng.choice(("${autobalance_single}", "${autobalance_by_first_grouping_column}")),
        not big and rng.random() < 0.6,
        big,
        not rules,
        rng.choice((6, 6, 30)),
    )
    two = not big and rng.random() < 0.2
    names = [f"{NAMESPACE}.Orders", *([f"{NAMESPACE}.Fills"] if two else [])]
    tables = {name: _draw_table(rng, name, site, rules=rules) for name in names}
    feeds: dict[str, Feed] = {}
    for number in range(1 if big else rng.choice((1, 1, 2, 3))):
        fed = tuple(names) if two and (number == 0 or rng.random() < 0.5) else (rng.choice(names),)
        plain = all(column.kind.json for name in fed for column in tables[name].columns if column not in BASE)
        stream = f"s{number}"
        feeds[stream] = Feed(
            stream,
            fed,
            tuple(f"{letter}{number}" for letter in "ab"[: rng.randint(1, 2)]),
            rng.choice(("json", "parquet")) if plain else "parquet",
            rng.random() < 0.3,
            rng.random() < 0.75 or site.big,  # rejected rows have a budget
        )
        for name in fed:
            tables[name].streams[stream] = Stream(stream, feeds[stream].takes_late)
    if two and not any(feed.tables == (name,) for name in names for feed in feeds.values()):
        tables = {name: model for name, model in tables.items() if model.streams}
    world = World({name: model for name, model in tables.items() if model.streams}, feeds)
    base.mkdir(parents=True)
    for model in world.tables.values():
        write_schema(site, model)
    for feed in feeds.values():
        (base / feed.stream).mkdir()
        site.stream(feed.stream).write_text(_settings(feed))
    return site, world


def _draw_table(rng: random.Random, name: str, site: Site, *, rules: bool) -> Model:
    pool = [*PLAIN] if rng.random() < 0.5 else [*KINDS.values()]
    letter = "X" if name.endswith("Orders") else "Z"  # a field of a feed has one type
    extra = [Col(f"{letter}{n}", f"{letter}{n}", rng.choice(pool)) for n in range(rng.randint(0, 2 if site.big else 4))]
    if not site.big and rng.random() < 0.25:  # whose two zeros are equal, and are two keys of an index
        extra.append(Col(f"{letter}0s", f"{letter}0s", KINDS[rng.choice(("float", "double"))]))
    columns = [*BASE, *extra]
    chosen = [SYM] if rules else [SYM, *(column for column in extra if column.kind.group)]
    grouped = rng.choice([*chosen, None]) if not site.big else SYM
    if grouped is not None:
        columns = [replace(c, role=GROUPING) if c is grouped else c for c in columns]
    keyed = [column.key for column in columns if column.kind.key and column.key not in ("Date", "At")]
    indexes = tuple(tuple(rng.sample(keyed, min(len(keyed), rng.randint(1, 3)))) for _ in range(rng.randint(0, 2)))
    zeros = [column.key for column in extra if column.kind.name in ("float", "double")]
    if zeros:
        others = [key for key in keyed if key not in zeros]
        indexes = ((rng.choice(zeros), rng.choice(others)), *indexes)
    extended = "" if site.big or rng.random() < 0.8 else rng.choice([*TREES])
    return Model(name, tuple(columns), tuple(dict.fromkeys(indexes)), extended=extended)


def schema_text(site: Site, model: Model) -> str:
    """The schema file of a table."""
    namespace, table = model.name.split(".")
    names = {column.key: column.name for column in model.columns}
    listed = [",".join(names[key] for key in index) for index in model.indexes if all(key in names for key in index)]
    grouped = any(column.role == GROUPING and column.kind.name in FORMULA_KINDS for column in model.columns)
    formula = site.formula if grouped else "${autobalance_single}"
    return "\n".join(
        [
            f'<Table namespace="{namespace}" name="{table}" storageType="NestedPartitionedOnDisk"'
            f' defaultMergeFormat="{site.form}">',
            f'<Partitions keyFormula="{formula}"/>',
            *(column.element for column in model.columns),
            *(f'<DataIndex columns="{columns}"/>' for columns in dict.fromkeys(listed)),
            *([f'<ExtendedStorage type="{model.extended}"/>'] if model.extended else []),
            "</Table>\n",
        ]
    )


def write_schema(site: Site, model: Model) -> None:
    site.schema(model.name).write_text(schema_text(site, model))


def _settings(feed: Feed) -> str:
    rule = (
        'internal = { column = "Source" }\nvalue = { column = "At", zone = "UTC" }\nmax_past = "99999 d"\n'
        f'late = "{"supplement" if feed.takes_late else "quarantine"}"\n'
    )
    head = f'name = "{feed.stream}"\n'
    body = (
        f'[feed]\ntype = "files"\npath = "{feed.stream}/*.{feed.form}"\nformat = "{feed.form}"\n'
        f"max_per_trigger = {{ files = 1 }}\n"
        + ('missing_columns = "null"\n' if feed.form == "parquet" else "")
        + f"[bad_rows]\nallow_null_alias = {str(feed.null_alias).lower()}\n"
    )
    if len(feed.tables) == 1:
        (table,) = feed.tables
        columns = f'[columns]\nignore = ["{KIND_FIELD}"]\n'
        return f'{head}table = "{table}"\nschema = "{table}.schema"\n{body}{columns}[partition]\n{rule}'
    tables = "".join(
        f'[[tables]]\ntable = "{table}"\nschema = "{table}.schema"\n'
        f'where = {{ column = "{KIND_FIELD}", equals = "{table}" }}\n[tables.partition]\n{rule}'
        for table in feed.tables
    )
    return head + body + tables


def feed_more(rng: random.Random, site: Site, world: World, feed: Feed) -> None:
    """Writes one or two new files of a feed, with late rows and doubles among theirs."""
    kinds = dict[str, Kind]()
    for table in feed.tables:
        for column in world.tables[table].columns:
            kinds.setdefault(column.name, column.kind)
    alike = [fed for fed in feed.files[-3:] if all(kinds.get(name, kind) == kind for name, kind in fed.kinds.items())]
    before = [row for fed in alike for row in fed.rows[:50] if row.keys() <= {*kinds, KIND_FIELD}]
    for _ in range(rng.randint(1, 2)):
        count = rng.randint(4_500, 9_500) if site.big and rng.random() < 0.7 else rng.randint(1, site.most)
        rows = [_draw_row(rng, feed, world, kinds, sentinels=count < 100) for _ in range(count)]
        rows += rng.choices(before, k=rng.randint(0, 3)) if before else []
        _write(site.base / feed.stream / f"{feed.written:04d}.{feed.form}", feed.form, rows, kinds)
        feed.files.append(FedFile(rows, kinds))
        feed.written += 1
        before += rows[:50]


def _draw_row(rng: random.Random, feed: Feed, world: World, kinds: Mapping[str, Kind], *, sentinels: bool) -> FileRow:
    key, date = rng.choice(KEYS), rng.choice(DATES)
    moment = datetime.fromisoformat(f"{date}T00:00:00+00:00") + timedelta(seconds=rng.randrange(86_400))
    table = rng.choice(feed.tables)
    row: FileRow = {
        KIND_FIELD: table,
        "Date": date,
        "Sym": f"s{key % 3}",
        "Key": key,
        "Price": rng.choice((None, *range(4))),
        "Source": rng.choice(feed.sources),
        "At": int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 10**9 + rng.randrange(10**6) * 1000,
    }
    for column in world.tables[table].columns:
        if column in BASE or column.key in row:
            continue
        value = column.kind.draw(rng)
        unfit = [*column.kind.outside, *([column.kind.null_value] if column.kind.null_value is not None else [])]
        if sentinels and unfit and rng.random() < 0.03:
            value = rng.choice(unfit)
        row[column.name] = value
    return {name: value for name, value in row.items() if name in kinds or name == KIND_FIELD}


def _write(path: Path, form: str, rows: Sequence[FileRow], kinds: Mapping[str, Kind]) -> None:
    if form == "json":
        path.write_text("".join(json.dumps(_json(row), ensure_ascii=False) + "\n" for row in rows))
        return
    columns = {name: kind.array([row.get(name) for row in rows]) for name, kind in kinds.items() if name != "Date"}
    columns[KIND_FIELD] = pa.array([row[KIND_FIELD] for row in rows], pa.string())
    pq.write_table(pa.table(columns), path)


def _json(row: FileRow) -> dict[str, Any]:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row["At"] // 1000)
    return {**row, "At": moment.isoformat().replace("+00:00", "Z")}


def arrow_rows(columns: Iterable[Col], rows: Sequence[Row]) -> pa.Table:
    """Rows of a table as Arrow, by the names of its columns."""
    return pa.table({column.name: column.kind.array([row.get(column.key) for row in rows]) for column in columns})


def indexed(model: Shown) -> Iterator[tuple[Col, ...]]:
    """The columns that an index or a group of the table answers for."""
    columns = {column.key: column for column in model.columns}
    for index in model.indexes:
        if all(key in columns for key in index):
            yield tuple(columns[key] for key in index)
    for column in model.columns:
        if column.role == GROUPING:
            yield (column,)
