"""A feed with rows of three tables, its schemas and its stream file; and what each table has of it."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import sparkhaven
from sparkhaven.store.io.fs import Fs

COLUMNS = {
    "Md.Trade": {"Sym": "String", "Price": "double", "Size": "long", "At": "Instant"},
    "Md.Quote": {"Sym": "String", "Bid": "double", "Ask": "double", "At": "Instant"},
    "Md.Other": {"kind": "String", "Sym": "String", "At": "Instant"},
}
TYPES = {"Md.Trade": "T", "Md.Quote": "Q", "Md.Other": "X"}
Row = dict[str, Any]


def row(number: int, kind: str) -> Row:
    """A row of a feed, whose fields follow from its number; each kind has fields of its own."""
    common = {"kind": kind, "Sym": f"s{number % 4}", "At": f"2026-11-20T10:00:{number % 60:02d}.{number + 1:06d}Z"}
    if kind == "T":
        return common | {"Price": number / 4, "Size": number}
    return common | ({"Bid": number / 8, "Ask": number / 8 + 1} if kind == "Q" else {})


def rows(start: int, stop: int, kinds: str = "TQX") -> list[Row]:
    """Rows of all kinds, one after the other."""
    return [row(number, kinds[number % len(kinds)]) for number in range(start, stop)]


def stored(rows: Sequence[Row], table: str) -> list[tuple[Any, ...]]:
    """What a table has of rows: all of its columns but the time, which tells its number, sorted."""
    names = [name for name in COLUMNS[table] if name != "At"]
    mine = [row for row in rows if row["kind"] == TYPES[table] or (table == "Md.Other" and row["kind"] not in "TQ")]
    return sorted((*(row.get(name) for name in names), row["At"][-7:-1]) for row in mine)


def read(root: Path, table: str) -> list[tuple[Any, ...]]:
    """The same from a database."""
    names = [name for name in COLUMNS[table] if name != "At"]
    values = sparkhaven.open_table(root, table).to_arrow(columns=[*names, "At"]).to_pylist()
    return sorted((*(value[name] for name in names), str(value["At"])[20:26]) for value in values)


def put_json(feed: Path, name: str, rows: Sequence[Row], mtime: int) -> Path:
    """A file of JSON lines; ``mtime`` in seconds."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    return _put(feed / name, text.encode(), mtime)


def put_csv(feed: Path, name: str, rows: Sequence[Row], mtime: int) -> Path:
    """A file of CSV records with all columns; texts with a line feed are quoted."""
    names = list(dict.fromkeys(name for columns in COLUMNS.values() for name in ("kind", *columns)))
    feed.mkdir(exist_ok=True)
    with (feed / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    os.utime(feed / name, (mtime, mtime))
    return feed / name


def put_parquet(feed: Path, name: str, rows: Sequence[Row], mtime: int) -> Path:
    """A file of Parquet with all columns."""
    feed.mkdir(exist_ok=True)
    names = list(dict.fromkeys(name for columns in COLUMNS.values() for name in ("kind", *columns)))
    pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), feed / name, row_group_size=7)
    os.utime(feed / name, (mtime, mtime))
    return feed / name


def _put(path: Path, data: bytes, mtime: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (mtime, mtime))
    return path


def write_schema(base: Path, table: str, columns: Mapping[str, str]) -> None:
    namespace, name = table.split(".")
    lines = "".join(f'<Column name="{column}" dataType="{kind}"/>' for column, kind in columns.items())
    partitioning = '<Column name="Date" dataType="String" columnType="Partitioning"/>'
    text = f'<Table namespace="{namespace}" name="{name}" storageType="NestedPartitionedOnDisk">'
    (base / f"{table}.schema").write_text(f"{text}{partitioning}{lines}</Table>\n")


def write_stream(
    base: Path,
    feed: str | None = None,
    *,
    tables: Sequence[str] = tuple(COLUMNS),
    where: Mapping[str, str] | None = None,
    top: str = "",
    bad_rows: str = "max_rows = 100\nmax_fraction = 1.0",
) -> Path:
    """A stream file beside its schemas; the third table has the rest. ``feed``: keys of ``[feed]``."""
    base.mkdir(exist_ok=True)
    routes = {
        "Md.Trade": 'where = { column = "kind", equals = "T" }',
        "Md.Quote": 'where = { column = "kind", equals = "Q" }',
        "Md.Other": "else = true",
    } | dict(where or {})
    feed = feed or f'type = "files"\npath = "{base}/feed"\nformat = "json"\nsettle = "0s"'
    parts = []
    for table in tables:
        write_schema(base, table, COLUMNS[table])
        parts.append(
            f'[[tables]]\ntable = "{table}"\nschema = "{table}.schema"\n{routes[table]}\n'
            '[tables.partition]\ninternal = { fixed = "a" }\nvalue = { column = "At", zone = "UTC" }\n'
            'clock = "2026-11-20T12:00:00Z"\n'
        )
    text = f'name = "md"\n{top}\n[feed]\n{feed}\n[bad_rows]\n{bad_rows}\n' + "".join(parts)
    (base / "md.toml").write_text(text)
    return base / "md.toml"


def logged_files(root: Path, table: str) -> int:
    """How many files the stream has taken, by the log of a table."""
    from sparkhaven.store.epochs.reading.stream_state import load_stream
    from sparkhaven.store.layout import Layout, TableName
    from sparkhaven.store.places import StreamPlace

    return len(load_stream(StreamPlace(Fs(), Layout(root), TableName.parse(table), "md")).files)
