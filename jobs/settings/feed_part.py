"""The feed that a schema is inferred from: of a stream file that may lack all but ``[feed]``, or of files by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sparkhaven.ingest.feeds.registry import planned_class
from sparkhaven.ingest.inference.file_feed import file_feed
from sparkhaven.ingest.inference.texts import literal
from sparkhaven.ingest.sample_rows import Sample
from sparkhaven.ingest.spec import FeedOptions, TableRoutes
from sparkhaven.jobs.settings.stream_file import parse_stream, parse_tables, read_toml
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path

LACKING: Mapping[str, Any] = {
    "name": "sample",
    "table": "Sample.Sample",
    "schema": "Sample.Sample.schema",
    "partition": {"internal": {"fixed": "0"}, "value": {"fixed": "all"}},
}
"""What a stream file needs and a sample does not."""


@dataclass(frozen=True, slots=True)
class FeedPart:
    """What is known of a stream that has no schema yet.

    ``raw``: its tables as written, paths relative to ``base``. ``files``: no stream file was named, but files.
    ``remarks``: how they were understood, where it is in doubt.
    """

    raw: Mapping[str, Any]
    base: Path
    options: FeedOptions
    files: bool = False
    remarks: tuple[str, ...] = ()
    routes: TableRoutes | None = None

    def sample(self, fs: Fs, rows: int, table: str | None = None) -> Sample:
        """At most so many rows; of a feed with several tables those of ``table``, where a column tells.

        SettingsError for a table that the stream file does not name.
        """
        sample: Sample = planned_class(self.options.traits.feed).sample(fs, self.options, rows)
        remarks, routes = self.remarks, self.routes
        if routes is not None and table is not None:
            if table not in routes.names:
                named = ", ".join(routes.names)
                raise SettingsError("the stream file has no such table", where="--table", expected=named, found=table)
            if routes.kind == "column":
                own, table_of, rest = routes.names.index(table), routes.table_of, routes.rest
                sample = sample.where(routes.column, lambda text: table_of.get(text or "", rest) == own)
                routes = None
        if routes is not None:
            remarks = (*remarks, "the sample has rows of all tables of the stream file")
        return replace(sample, remarks=(*remarks, *sample.remarks))

    def beside(self, directory: Path) -> dict[str, Any]:
        """The tables as they are written in a file of another directory."""
        moved: dict[str, Any] = deepcopy(dict(self.raw))
        feed = moved["feed"]
        if self.files:
            feed["path"] = os.path.relpath(feed["path"], directory)
        elif directory != self.base:
            avro, protobuf = feed.get("avro"), feed.get("protobuf")
            for table, key in ((feed, "path"), (avro, "schema"), (avro, "registry"), (protobuf, "schema")):
                if isinstance(table, dict) and isinstance(table.get(key), str):
                    table[key] = _moved(table[key], self.base, directory)
        return moved


def feed_part(fs: Fs, source: str, environ: Mapping[str, str]) -> FeedPart:
    """The feed of a stream file (``.toml``), or of a file, directory or glob.

    SettingsError for a faulty stream file, and where there are no such files.
    """
    if not source.endswith(".toml"):
        feed, remarks = file_feed(fs, source)
        base = Path.cwd()
        raw: dict[str, Any] = {"feed": {**feed, "path": literal(feed["path"])}}
        settings = parse_stream({**LACKING, **raw}, base / "sample.toml", environ, fs)
        return FeedPart(raw, base, settings.spec.feed, files=True, remarks=remarks)
    path = local_path(source)
    raw = read_toml(
        fs, path, expected="a TOML file with [feed], or files to infer a schema from", hint="check the path"
    )
    routes = None
    if "tables" in raw:
        routes = parse_tables(raw, path, environ, fs)[0].spec.routes
        raw = {key: value for key, value in raw.items() if key not in ("tables", "else")}
    settings = parse_stream({**LACKING, **raw}, path, environ, fs)
    return FeedPart(raw, path.absolute().parent, settings.spec.feed, routes=routes)


def _moved(text: str, base: Path, directory: Path) -> str:
    """A path as it is written from another directory; absolute ones, URLs and names of the environment stay."""
    if text.startswith("${") or "://" in text or local_path(text, base) != base / text:
        return text
    return os.path.relpath(base / text, directory)
