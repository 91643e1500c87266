"""Streams, schemas and files for tests of ingest, stated as differences from a plain default."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.raw_file import NOTHING, KnownFile, PlannedFile
from sparkhaven.ingest.feeds.base import route
from sparkhaven.ingest.feeds.files.decode import file_blocks
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.router import Routed, TableRows
from sparkhaven.ingest.spec import (
    BadRowBudget,
    Clock,
    ColumnSpec,
    CsvOptions,
    Format,
    InternalRule,
    MissingColumns,
    PartitionSpec,
    StreamSpec,
    Target,
    Unit,
    ValueRule,
)
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage, TableSchema

NOW_NS = 1_357_016_400_000_000_000  # 2013-01-01T05:00:00Z
PLENTY = BadRowBudget(10**9, 1.0)


_STORAGE = {"fixed": Storage.FIXED, "blob": Storage.BLOB, "set": Storage.SET}


def column(name: str, kind: str, place: int = 0, encoding: str = "UTF_8") -> Column:
    """A stored column. ``kind`` may have a codec behind it: ``BigDecimal 18,6``, ``byte[] ByteArrayCodec 4``."""
    spelling, *codec = kind.split()
    arguments = codec.pop() if codec and not codec[-1].endswith("Codec") else None
    type_ = data_type(spelling, codec[0] if codec else None, arguments)
    text = spelling == "String"
    coded = None if type_.coding is None else _STORAGE[type_.coding.form]
    storage = coded or (Storage.SYMBOL if text else Storage.FIXED)
    return Column(name, type_, Kind.NORMAL, storage, place, encoding if text or storage is Storage.SET else None)


def target(
    kind: str, name: str = "v", *, unit: Unit = "iso", zone: str | None = None, encoding: str = "UTF_8"
) -> Target:
    """A column to decode from the field of its name."""
    return Target(column(name, kind, encoding=encoding), name, unit, zone, None, True)


def schema(**columns: str) -> TableSchema:
    """A table partitioned by ``Date`` with columns of these types."""
    date = Column("Date", data_type("String"), Kind.PARTITIONING, Storage.NONE, 0, "UTF_8")
    made = (column(name, kind, place + 1) for place, (name, kind) in enumerate(columns.items()))
    return TableSchema("Test", "Rows", (date, *made))


def stream(
    *columns: ColumnSpec,
    form: Format = "json",
    internal: InternalRule | None = None,
    value: ValueRule | None = None,
    clock: Clock | None = None,
    budget: BadRowBudget = PLENTY,
    csv: CsvOptions | None = None,
    ignore: tuple[str, ...] = (),
    missing: MissingColumns = "fail",
    **rest: Any,
) -> StreamSpec:
    """A stream; default: all rows go into one location."""
    partition = PartitionSpec(
        internal or InternalRule("fixed", "0"), value or ValueRule(fixed="2013-01-01"), clock or Clock("fixed", NOW_NS)
    )
    feed = FilesOptions("/feed", form, csv or CsvOptions(), missing_columns=missing)
    return StreamSpec("s", "Test.Rows", feed, partition, columns, ignore, budget, **rest)


def file_id(path: Path) -> FileId:
    """A file as a planner would name it."""
    found = path.stat()
    return FileId(str(path), found.st_size, found.st_mtime_ns)


def write(path: Path, content: bytes | str | Iterable[dict[str, Any] | str]) -> FileId:
    """Writes a feed file: bytes, text, or lines of which dicts become JSON."""
    if isinstance(content, str):
        content = content.encode()
    if not isinstance(content, bytes):
        lines = (line if isinstance(line, str) else json.dumps(line) for line in content)
        content = "".join(line + "\n" for line in lines).encode()
    path.write_bytes(content)
    return file_id(path)


def decode_split(
    fs: Fs,
    split: FileId,
    spec: StreamSpec,
    table: TableSchema,
    rejects: Rejects,
    *,
    clock: Callable[[], float] = time.time,
    known: KnownFile = NOTHING,
) -> Iterator[Routed]:
    """Routed batches of a file."""
    options: Any = spec.feed
    tables = {0: TableRows(spec, table, rejects)}
    blocks = file_blocks(PlannedFile(fs, split), tables, None, options, clock, known)
    return route((block for _, block in blocks), rejects)


def decode(split: FileId, spec: StreamSpec, table: TableSchema, fs: Fs | None = None) -> tuple[list[Routed], Rejects]:
    """All batches of a file, and what was rejected."""
    rejects = Rejects(spec.bad_rows)
    routed = list(decode_split(fs or Fs(), split, spec, table, rejects, clock=lambda: NOW_NS / 1e9))
    rejects.source.require(sum(len(part.batch) for part in routed), rejects.bad, split)
    return routed, rejects


def values(routed: list[Routed], name: str = "v") -> list[Any]:
    """The values of one column over all batches, instants as nanoseconds."""
    found: list[Any] = []
    for item in routed:
        array = item.batch.column(name)
        if str(array.type).startswith("timestamp"):
            array = array.view("int64")
        found.extend(array.to_pylist())
    return found
