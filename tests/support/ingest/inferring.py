"""From files to a schema and a stream file by the command line, and the files decoded with these by their feed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkhaven.ingest.bad_rows import BadRow, Rejects
from sparkhaven.ingest.feeds.base import SILENT
from sparkhaven.ingest.feeds.files.listing import FeedListing
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.jobs.settings.stream_file import StreamSettings, load_stream_file
from sparkhaven.jobs.settings.stream_schema import checked_schema
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.schema.document.schema_file import check_schema
from sparkhaven.store.types.model import TableSchema
from tests.support.commands import run

FS = Fs()
NOW = 1_795_255_200.0  # 2026-11-21T10:00:00Z


@dataclass(frozen=True)
class Inferred:
    """What the two commands wrote, and what came of the feed with it: columns in the order of rows, and bad rows."""

    schema: TableSchema
    xml: str
    stream: str
    settings: StreamSettings
    columns: dict[str, list[Any]]
    bad: list[BadRow]
    keys: list[LocationKey]

    @property
    def types(self) -> dict[str, str]:
        return {column.name: column.type.name for column in self.schema.stored}

    def above(self, name: str) -> str:
        """The comment above a column."""
        lines = self.xml.splitlines()
        (place,) = (n for n, line in enumerate(lines) if f'<Column name="{name}"' in line)
        return lines[place - 1].strip()


def ok(*words: str) -> str:
    """The standard output of a command that must succeed."""
    found = run(Path("none"), *words)
    assert found.exit_code == 0, found.output
    return found.stdout


def infer_and_new(base: Path, source: Path | str, *, more: tuple[str, ...] = (), new: tuple[str, ...] = ()) -> Inferred:
    """``schema infer`` to a file, ``schema check`` of it without a finding, ``schema new``, and every row decoded."""
    file = base / "Test.Rows.schema"
    file.write_text(ok("schema", "infer", str(source), "--table", "Test.Rows", *more), encoding="utf-8")
    return with_schema(base, source, file, new)


def with_schema(base: Path, source: Path | str, file: Path, new: tuple[str, ...] = ()) -> Inferred:
    """The same from a schema that is there."""
    findings, _ = check_schema(FS, file)
    assert [finding.to_json() for finding in findings] == []
    ok("schema", "new", str(file), str(source), "--name", "rows", "--force", *new)
    stream = base / "rows.toml"
    settings = load_stream_file(FS, stream, os.environ)
    schema = checked_schema(FS, settings)
    return Inferred(
        schema,
        file.read_text(encoding="utf-8"),
        stream.read_text(encoding="utf-8"),
        settings,
        *decoded(settings, schema),
    )


def decoded(
    settings: StreamSettings, schema: TableSchema
) -> tuple[dict[str, list[Any]], list[BadRow], list[LocationKey]]:
    """Rows of all files of a feed by its decoder and router, as they are ingested."""
    options = settings.spec.feed
    assert isinstance(options, FilesOptions)
    listing = FeedListing(FS, options.path, options.unfinished, lambda path: False)
    files = sorted((FileId(str(f.path), f.stat.size, f.stat.mtime_ns) for f in listing.look(0)), key=lambda f: f.path)
    columns: dict[str, list[Any]] = {column.name: [] for column in schema.stored}
    bad: list[BadRow] = []
    keys: dict[LocationKey, None] = {}
    rejects = Rejects(SILENT, sink=bad.extend)
    for file in files:
        for router, rows, payload in settings.feed.decode(FS, file, schema, rejects, lambda: NOW):
            for name, array in zip(columns, rows.columns, strict=False):
                columns[name] += plain(array)
            keys |= dict.fromkeys(routed.key for routed in router.route(rows, payload, rejects))
    rejects.flush()
    return columns, bad, list(keys)


def plain(array: pa.Array) -> list[Any]:
    """Values as Python has them; instants in ns, chars as texts."""
    if pa.types.is_timestamp(array.type):
        return list(array.view(pa.int64()).to_pylist())
    if array.type == pa.uint16():
        return [None if unit is None else chr(unit) for unit in array.to_pylist()]
    return list(array.to_pylist())


def json_file(path: Path, rows: list[Mapping[str, Any]] | list[str]) -> Path:
    """Rows as JSON lines; texts are lines as they are."""
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8"
    )
    return path
