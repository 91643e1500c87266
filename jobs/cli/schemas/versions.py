"""Commands that compare schemas: ``schema history|diff``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from sparkhaven.jobs.cli.context import CliContext, exit_with
from sparkhaven.jobs.cli.options import TableArgument, help_end
from sparkhaven.jobs.cli.schemas.deploy import is_schema_file
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.readers.version_times import VersionUse, version_uses
from sparkhaven.store.errors import EXIT_BAD_DATA, EXIT_DONE
from sparkhaven.store.format.table.definition_file import read_definition
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed, load_history
from sparkhaven.store.schema.deployed.history import Version, retired_columns
from sparkhaven.store.schema.deployed.numbering import recorded_schema
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
    place = TablePlace(Fs(), cli.database(), TableName.parse(name))
    deployed = load_deployed(place)
    versions = load_history(place)[: deployed.version]
    uses = version_uses(place)
    rows = [_version(versions[: number + 1], uses) for number in range(len(versions))]
    stat = place.fs.stat(place.schema)
    rows[-1]["deployed"] = None if stat is None else _time(stat.mtime_ns // 10**6)
    gone = [
        {"column": column.record.name, "id": number, "version": column.version, "dropped": column.declared}
        for number, column in retired_columns(versions).items()
    ]
    record = {"table": name, "version": deployed.version, "versions": rows, "retired": gone}

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


def _version(versions: Sequence[Version], uses: Mapping[int, VersionUse]) -> dict[str, Any]:
    newest = versions[-1]
    use = uses.get(newest.version)
    shown: dict[str, Any] = {
        "version": newest.version,
        "first_rows": None if use is None else _time(use.first_ms),
        "last_rows": None if use is None else _time(use.last_ms),
        "columns": [column.name for column in newest.columns],
        "ids": {column.name: column.id for column in newest.columns},
        "sha256": newest.sha256[:16],
    }
    if len(versions) == 1:
        return shown | {"added": shown["columns"], "dropped": [], "renamed": {}, "restored": [], "changed": []}
    before = versions[-2]
    names = {column.id: column.name for column in newest.columns}
    rename = {c.name: names[c.id] for c in before.columns if names.get(c.id, c.name) != c.name}
    kind = TableName("Any", "Any")
    change = compare(recorded_schema(kind, newest), recorded_schema(kind, before), versions[:-1], rename)
    shown |= change.to_json()
    gone = {column.name: column.id for column in before.columns if column.name in change.dropped}
    return shown | {"dropped_ids": gone}


def _with_ids(row: Mapping[str, Any], key: str) -> object:
    """A cell of the text; columns that come have their ids, and those that go."""
    ids = {**row["ids"], **row.get("dropped_ids", {})}
    if key in ("added", "restored", "dropped"):
        return [f"{name} ({ids[name]})" if name in ids else name for name in row[key]]
    return row[key]


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")


def _cell(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{old} to {new}" for old, new in value.items()) or None
    return (", ".join(map(str, value)) or None) if isinstance(value, list) else value
