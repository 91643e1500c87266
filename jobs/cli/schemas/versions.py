"""Commands that compare schemas: ``schema history|diff``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sparkhaven.jobs.cli.context import CliContext, exit_with
from sparkhaven.jobs.cli.options import TableArgument, help_end
from sparkhaven.jobs.cli.schemas.deploy import is_schema_file
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.jobs.monitor.schema_versions import schema_versions
from sparkhaven.jobs.monitor.texts import iso_time
from sparkhaven.store.errors import EXIT_BAD_DATA, EXIT_DONE
from sparkhaven.store.format.table.definition_file import read_definition
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.schema.deployed.schema_changes import compare
from sparkhaven.store.schema.differences import schema_differences
from sparkhaven.store.schema.document.schema_file import load_schema
from sparkhaven.store.schema.document.tbl_schema import tbl_schema
from sparkhaven.store.types.model import TableSchema

SIDE = "A schema file, a .tbl file, or a deployed table, NS.T."


def register(schema: typer.Typer) -> None:
    schema.command(epilog=help_end("schema history Nyc13.Flight", usage="no such table"))(history)
    pairs = "schema diff old/Nyc13.Flight.schema Nyc13.Flight.schema", "schema diff Nyc13.Flight Nyc13.Flight.schema"
    end = help_end(*pairs, done="no differences", bad_data="the schemas differ", usage="no such table or file")
    schema.command(epilog=end)(diff)


def history(ctx: typer.Context, name: TableArgument) -> None:
    """Shows what each version of a table's schema has changed.

    Shows also when rows were first and last written by it, as far as locations and merges tell. Columns that are gone
    are listed with the last version that has them.
    """
    cli: CliContext = ctx.obj
    versions, retired = schema_versions(TablePlace(Fs(), cli.database(), TableName.parse(name)))
    newest = versions[-1]
    rows = [version.to_json() for version in versions]
    rows[-1]["deployed"] = None if newest.deployed_ms is None else iso_time(newest.deployed_ms)
    gone = [
        {"column": column.record.name, "id": number, "version": column.version, "dropped": column.declared}
        for number, column in retired.items()
    ]
    record = {"table": name, "version": newest.version, "versions": rows, "retired": gone}

    def show() -> None:
        header = ("version", "first rows", "added", "dropped", "renamed", "restored", "changed", "SHA-256")
        keys = ("version", "first_rows", "added", "dropped", "renamed", "restored", "changed", "sha256")
        table(header, ([_cell(_with_ids(row, key)) for key in keys] for row in rows))
        for column in gone:
            how = "dropped by command" if column["dropped"] else "retired, dropped by no command"
            print(f"{column['column']} (id {column['id']}): {how}. Version {column['version']} has it last")

    cli.result(record, show)


def diff(
    ctx: typer.Context,
    first: Annotated[str, typer.Argument(metavar="A", help=SIDE)],
    second: Annotated[str, typer.Argument(metavar="B", help=SIDE)],
) -> None:
    """Shows how schema B differs from schema A.

    Compares columns with role, type, storage, charset and codec, their order, and what is said of the table. Ids are
    compared where both are deployed tables.
    """
    cli: CliContext = ctx.obj
    old, new = (_schema(cli, word) for word in (first, second))
    change = compare(new, old, ())
    deployed = not any(is_schema_file(word) or word.endswith(".tbl") for word in (first, second))
    differences = schema_differences(old, new, ids=deployed)
    retyped = [
        f"{column.name} from {before.type.name} to {column.type.name}, {column.storage.value}"
        for column in new.columns
        if (before := old.column(column.name)) is not None
        and (before.type.name, before.storage, before.encoding) != (column.type.name, column.storage, column.encoding)
    ]
    record = {
        "a": first,
        "b": second,
        "equal": not differences,
        **change.to_json(),
        "retyped": retyped,
        "differences": [difference.to_json() for difference in differences],
        "version": new.version,
    }

    def show() -> None:
        if not differences:
            print("no differences")
            return
        header = ("column", "attribute", "A", "B")
        table(header, ([d.column, d.attribute, d.first, d.second] for d in differences))

    cli.result(record, show)
    exit_with(EXIT_BAD_DATA if differences else EXIT_DONE)


def _schema(cli: CliContext, word: str) -> TableSchema:
    if word.endswith(".tbl"):
        return tbl_schema(read_definition(Fs(), local_path(word))[0])
    if is_schema_file(word):
        return load_schema(Fs(), local_path(word)).materialised().schema
    return load_deployed(TablePlace(Fs(), cli.database(), TableName.parse(word)))


def _with_ids(row: Mapping[str, Any], key: str) -> object:
    """A cell of the text; columns that come have their ids, and those that go."""
    ids = {**row["ids"], **row.get("dropped_ids", {})}
    if key in ("added", "restored", "dropped"):
        return [f"{name} ({ids[name]})" if name in ids else name for name in row[key]]
    return row[key]


def _cell(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{old} to {new}" for old, new in value.items()) or None
    return (", ".join(map(str, value)) or None) if isinstance(value, list) else value
