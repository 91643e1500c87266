"""Commands that write a schema, and a stream file, from rows of a feed: ``schema infer|new``.

What they need is imported where it is used: ``schema check`` and ``show`` need none of it.
"""

from __future__ import annotations

import os
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import DryRun, help_end
from sparkhaven.store.errors import SchemaMismatchError, SettingsError, counted, counted_with
from sparkhaven.store.format.table.tbl import read_definition
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import TableName, check_stream
from sparkhaven.store.schema.document.schema_file import load_schema, lost_in_text, parse_schema, tbl_schema_text

if TYPE_CHECKING:
    from sparkhaven.ingest.inference.fitting import Fit
    from sparkhaven.ingest.inference.proposal import Proposal
    from sparkhaven.ingest.sample_rows import Sample

ROWS = 10_000

SourceArgument = Annotated[
    str,
    typer.Argument(
        metavar="STREAM.toml|FILE",
        help="A stream file of which [feed] is enough. Or a file, directory or glob of JSON, CSV or Parquet.",
    ),
]
RowsOption = Annotated[int, typer.Option("--rows", metavar="N", min=1, help="Most rows of the sample.")]
ZoneOption = Annotated[
    str, typer.Option("--zone", metavar="Z", help="Time zone of times without an offset, and of days.")
]


@dataclass(frozen=True, slots=True)
class SampledFeed:
    """The rows that a file is inferred from."""

    source: SourceArgument
    rows: RowsOption = ROWS
    zone: ZoneOption = "UTC"


@dataclass(frozen=True, slots=True)
class InferredTable:
    """What the sample does not tell of a table."""

    table: Annotated[
        str | None,
        typer.Option(
            "--table", metavar="NS.T", help="Name of the table. Default: that of the stream file, or the file's."
        ),
    ] = None
    partitioning: Annotated[
        str, typer.Option("--partition-column", metavar="COLUMN", help="Name of the partitioning column.")
    ] = "Date"
    grouping: Annotated[
        list[str] | None, typer.Option("--grouping", metavar="COLUMN", help="Grouping column. Default: the best one.")
    ] = None
    blobs: Annotated[
        list[str] | None, typer.Option("--no-symbols", metavar="COLUMN", help="A String without a symbol table.")
    ] = None
    key_formula: Annotated[
        str | None, typer.Option("--key-formula", metavar="FORMULA", help="Where a merge puts rows. Default: balanced.")
    ] = None


def register(schema: typer.Typer) -> None:
    lines = (
        "schema infer feed/trades.json.gz --table Equity.Trade > Equity.Trade.schema",
        "schema infer ticks.toml --table Equity.Tick --rows 100000 --out Equity.Tick.schema",
    )
    codes = {"bad_data": "no record can be read", "retry": "the broker does not answer"}
    usage = "no such file, a file that is there already, wrong options"
    schema.command(epilog=help_end(*lines, usage=usage, **codes))(infer)
    line = "schema new Equity.Trade.schema feed/trades.json.gz --name trades"
    schema.command(epilog=help_end(line, usage=f"{usage}, a column that no field fits", **codes))(new)
    lines = (
        "schema from-tbl db/Intraday/Nyc13/Flight/EWR/2013-01-01/Flight/table.tbl > Nyc13.Flight.schema",
        "schema from-tbl Trade.tbl --out Equity.Trade.schema",
    )
    usage = "no such file, a file that is there already, an extended layout without --extended"
    bad = "the definition is damaged, or has what a schema cannot say"
    schema.command("from-tbl", epilog=help_end(*lines, bad_data=bad, usage=usage))(from_tbl)


def infer(cli: CliContext, sample: SampledFeed, wished: InferredTable, written: NewFile) -> None:
    """Infers a schema from rows of a feed.

    Writes a .schema (XML) with the reason for each type as a comment, to standard output or to --out. A column for each
    field, partitioning, grouping: all are proposals to be looked over. `schema new` writes the stream file.
    """
    from sparkhaven.ingest.inference.field_facts import identifier
    from sparkhaven.ingest.inference.proposal import propose
    from sparkhaven.ingest.inference.texts import SchemaWishes, schema_text
    from sparkhaven.ingest.targets import check_zone
    from sparkhaven.jobs.settings.feed_part import feed_part

    fs, zone, table, blobs = Fs(), sample.zone, wished.table, wished.blobs or []
    feed = feed_part(fs, sample.source, os.environ)
    name = TableName.parse(table or feed.raw.get("table") or _table_of(sample.source))
    check_zone(zone, "--zone")
    wishes = SchemaWishes(identifier(wished.partitioning), zone, tuple(wished.grouping or ()), wished.key_formula)
    sampled = feed.sample(fs, sample.rows, table)
    proposal = propose(sampled, partitioning=wishes.partitioning, zone=zone, blobs=blobs)
    _check_names(proposal, [*wishes.grouping, *blobs])
    text = schema_text(name, proposal, wishes)
    parse_schema(text.encode(), "")
    _tell(cli, proposal.sample)
    record = {"table": str(name), **_sample_json(proposal.sample), "columns": _columns_json(proposal)}
    written.put(cli, fs, text, record | {"schema": text})


def new(
    cli: CliContext,
    schema_file: Annotated[Path, typer.Argument(metavar="SCHEMA", parser=local_path, help="Schema file of the table.")],
    sample: SampledFeed,
    written: NewFile,
    name: Annotated[
        str | None, typer.Option("--name", metavar="STREAM", help="Name of the stream. Default: that of the table.")
    ] = None,
) -> None:
    """Writes the stream file for a schema and a feed.

    Finds the field of each column, and the settings by which all values of the sample are taken. The file stands beside
    the schema, or at --out. With --dry-run it is printed.
    """
    from sparkhaven.ingest.inference.fitting import fit_schema
    from sparkhaven.ingest.inference.texts import StreamWishes, stream_text
    from sparkhaven.ingest.targets import check_zone
    from sparkhaven.jobs.settings.feed_part import feed_part
    from sparkhaven.jobs.settings.stream_file import parse_stream
    from sparkhaven.jobs.settings.stream_schema import checked_schema

    fs, zone = Fs(), sample.zone
    feed = feed_part(fs, sample.source, os.environ)
    schema = load_schema(fs, schema_file).schema
    check_zone(zone, "--zone")
    stream = check_stream(name or feed.raw.get("name") or schema.name.lower())
    file = written.out or schema_file.parent / f"{stream}.toml"
    target = file.absolute()
    columns = {key: entry for key, entry in feed.raw.get("columns", {}).items() if key != "ignore"}
    fit = fit_schema(schema, feed.sample(fs, sample.rows, schema.full_name if feed.routes else None), columns, zone)
    beside = os.path.relpath(schema_file.absolute(), target.parent)
    text = stream_text(schema, feed.beside(target.parent), fit, StreamWishes(stream, beside, zone, time.time_ns()))
    settings = parse_stream(tomllib.loads(text), target, os.environ, fs)
    checked_schema(fs, settings)
    _tell(cli, fit.sample, fit)
    record = {"name": stream, "table": schema.full_name, **_sample_json(fit.sample), "stream": text}
    replace(written, out=file).put(cli, fs, text, record)


def _table_of(source: str) -> str:
    """A name for the table of a file: ``Sample`` and the first part of its name."""
    from sparkhaven.ingest.inference.field_facts import identifier

    stem = identifier(Path(source).name.partition(".")[0].strip("*?")) or "Rows"
    return f"Sample.{stem[:1].upper()}{stem[1:]}"


def _check_names(proposal: Proposal, names: Sequence[str]) -> None:
    """SettingsError for an option that names no column."""
    names_of_columns = {name for column in proposal.stored for name in (column.name, column.source)}
    wrong = [name for name in names if name not in names_of_columns]
    if wrong:
        raise SettingsError(
            "no such column to group by or to store without symbols",
            where="--grouping, --no-symbols",
            expected=", ".join(column.name for column in proposal.stored),
            found=", ".join(wrong),
            hint="name columns as the schema has them",
        )


def _tell(cli: CliContext, sample: Sample, fit: Fit | None = None) -> None:
    if sample.unreadable:
        first = sample.unreadable[0]
        cli.note(
            f"{counted_with(len(sample.unreadable), 'record', 'cannot be read: bad rows')}."
            f" First {first.position}: {first.reason}"
        )
    for remark in sample.remarks:
        cli.note(remark)
    for fitted in fit.columns if fit is not None else ():
        if fitted.bad:
            bad = f"{counted(fitted.bad, 'value')} of the sample cannot be stored and are bad rows"
            cli.note(f"column {fitted.column.name}: {bad}")


def _sample_json(sample: Sample) -> dict[str, Any]:
    return {
        "rows": sample.rows,
        "whole": sample.whole,
        "unreadable": len(sample.unreadable),
        "remarks": list(sample.remarks),
    }


def _columns_json(proposal: Proposal) -> list[dict[str, Any]]:
    return [
        {
            "name": column.name if column.reading is not None else None,
            "field": column.source,
            "type": None if column.reading is None else column.reading.type,
            "reason": column.reason,
            "notes": list(column.notes),
        }
        for column in proposal.columns
    ]


def from_tbl(
    cli: CliContext,
    written: NewFile,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", parser=local_path, help="A .tbl file, or the directory of a location."),
    ],
    extended: Annotated[
        str | None,
        typer.Option("--extended", metavar="TYPE", help="Layout of a table whose storage type is Extended."),
    ] = None,
) -> None:
    """Writes the schema of a table definition.

    Keeps each column with its role, charset, codec, arguments and width. Key formula, rules and indexes are in no
    definition: add them. The file goes to standard output or to --out.
    """
    fs = Fs()
    definition, path = read_definition(fs, file)
    text = tbl_schema_text(definition, extended=extended)
    if lost := lost_in_text(definition, text):
        raise SchemaMismatchError(
            "a schema cannot say what this definition has",
            where=path,
            expected="the same columns from the schema as from the definition",
            found="; ".join(difference.words() for difference in lost),
            hint=f"`sparkhaven inspect {path}` shows the definition",
        )
    record = {"table": f"{definition.namespace}.{definition.name}", "columns": len(definition.columns), "schema": text}
    written.put(cli, fs, text, record)


NewFileOption = Annotated[Path | None, typer.Option("--out", metavar="OUT", parser=local_path, help="File to write.")]


@dataclass(frozen=True, slots=True)
class NewFile:
    """Where a text goes: to a new file, or to standard output."""

    out: NewFileOption = None
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False
    dry_run: DryRun = False

    def put(self, cli: CliContext, fs: Fs, text: str, record: Mapping[str, object]) -> None:
        """Writes the text to ``out``; prints it without one, and in a dry run. SettingsError: the file is there."""
        out = self.out
        exists = out is not None and fs.stat(out) is not None
        if exists and not self.force:
            raise SettingsError(
                "the file is there already",
                where=out,
                expected="no file yet",
                found="a file",
                hint="name another with --out, or replace it with --force",
            )
        if out is not None and not self.dry_run:
            fs.replace(out, text.encode("utf-8"))
            cli.result({**record, "file": str(out)}, f"{out}: written")
            return
        cli.result(dict(record), text.removesuffix("\n"))
