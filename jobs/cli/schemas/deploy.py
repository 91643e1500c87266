"""Commands on deployed schemas: ``schema deploy|history|diff``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import DryRun, TableArgument, help_end
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.jobs.settings.deployment import deploy_schema
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed, load_history
from sparkhaven.store.schema.deployed.history import Version, retired_columns
from sparkhaven.store.schema.deployed.numbering import recorded_schema
from sparkhaven.store.schema.deployed.schema_changes import Consent, compare
from sparkhaven.store.schema.document.schema_checks import unbuilt_indexes
from sparkhaven.store.schema.document.schema_file import load_schema
from sparkhaven.store.types.model import TableSchema

FILE = "A schema file, or a deployed table, NS.T."


def register(schema: typer.Typer) -> None:
    lines = (
        "schema deploy Nyc13.Flight.schema --drop tailnum --dry-run",
        "schema deploy Nyc13.Flight.schema --rename dest=destination",
        "schema deploy Nyc13.Flight --restore 3",
    )
    usage = "the schema has errors, or changes more than is said: the message names columns and commands"
    schema.command(epilog=help_end(*lines, usage=usage))(deploy)
    schema.command(epilog=help_end("schema history Nyc13.Flight", usage="no such table"))(history)
    pairs = "schema diff old/Nyc13.Flight.schema Nyc13.Flight.schema", "schema diff Nyc13.Flight Nyc13.Flight.schema"
    schema.command(epilog=help_end(*pairs, done="compared", usage="no such table or file"))(diff)


def deploy(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE|NS.T", help=FILE)],
    drop: Annotated[list[str] | None, typer.Option("--drop", metavar="COL", help="Drop this column.")] = None,
    rename: Annotated[
        list[str] | None, typer.Option("--rename", metavar="OLD=NEW", help="The column NEW of the file is OLD.")
    ] = None,
    restore: Annotated[
        int | None, typer.Option("--restore", metavar="VERSION", min=1, help="Bring back columns of this version.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Deploys a schema, with drops and renames if named.

    Columns that are added need no option. Roles, order, formula and rules are taken from the file. With NS.T in place
    of a file, --restore deploys that version again, and --drop drops a column that an earlier release has retired.
    """
    cli: CliContext = ctx.obj
    fs, layout = Fs(), cli.layout()
    consent = Consent(tuple(drop or ()), tuple(map(_pair, rename or ())), restore, changes=True)
    source = local_path(file) if _is_file(file) else _text_of(TablePlace(fs, layout, TableName.parse(file)), restore)
    done = deploy_schema(fs, layout, source, consent=consent, dry_run=dry_run)
    name, change = done.schema.full_name, done.change
    counts = [change.added, change.dropped, change.renamed, change.restored, change.changed]
    record = {
        "table": name,
        "version": done.schema.version,
        "before": done.before,
        "deployed": done.written and not dry_run,
        **change.to_json(),
        "affected": sum(map(len, counts)),
        "message": f"version {done.schema.version}: {change.words()}",
        "dry_run": dry_run,
    }
    if not done.written:
        text = f"{name}: version {done.schema.version} is deployed already"
    else:
        verb = "would become" if dry_run else "is now"
        text = f"{name} {verb} version {done.schema.version}: {change.words()}"
    if (unbuilt := unbuilt_indexes(done.schema)) is not None:
        cli.note(unbuilt)
    cli.result(record, text)


def history(ctx: typer.Context, name: TableArgument) -> None:
    """Shows what each version of a table's schema has changed.

    Columns that are gone are listed with the last version that has them.
    """
    cli: CliContext = ctx.obj
    place = TablePlace(Fs(), cli.database(), TableName.parse(name))
    deployed = load_deployed(place)
    versions = load_history(place)[: deployed.version]
    rows = [_version(versions[: number + 1]) for number in range(len(versions))]
    gone = [
        {"column": column.record.name, "id": number, "version": column.version, "dropped": column.declared}
        for number, column in retired_columns(versions).items()
    ]
    record = {"table": name, "version": deployed.version, "versions": rows, "retired": gone}

    def show() -> None:
        header = ("version", "columns", "added", "dropped", "renamed", "SHA-256")
        table(header, ([_cell(row[key]) for key in (*header[:-1], "sha256")] for row in rows))
        for column in gone:
            how = "dropped by command" if column["dropped"] else "retired, dropped by no command"
            print(f"{column['column']}: {how}. Version {column['version']} has it last")

    cli.result(record, show)


def diff(
    ctx: typer.Context,
    first: Annotated[str, typer.Argument(metavar="A", help=FILE)],
    second: Annotated[str, typer.Argument(metavar="B", help=FILE)],
) -> None:
    """Shows what schema B changes in schema A."""
    cli: CliContext = ctx.obj
    after, before = (_schema(cli, word) for word in (first, second))
    change = compare(before, after, ())
    retyped = [
        f"{new.name} from {old.type.name} to {new.type.name}, {new.storage.value}"
        for new in before.columns
        if (old := after.column(new.name)) is not None
        and (old.type.name, old.storage, old.encoding) != (new.type.name, new.storage, new.encoding)
    ]
    record = {"a": first, "b": second, **change.to_json(), "retyped": retyped, "version": after.version}
    words = [change.words()] if not (change.additive and not change.added and retyped) else []
    cli.result(record, "; ".join([*words, *(f"retypes {text}" for text in retyped)]))


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise SettingsError("--rename is not a pair of names", expected="OLD=NEW", found=repr(text))
    return old, new


def _is_file(word: str) -> bool:
    return word.endswith(".schema") or "/" in word or local_path(word).is_file()


def _schema(cli: CliContext, word: str) -> TableSchema:
    if _is_file(word):
        return load_schema(Fs(), local_path(word)).materialised().schema
    return load_deployed(TablePlace(Fs(), cli.database(), TableName.parse(word)))


def _text_of(place: TablePlace, restore: int | None) -> bytes:
    """The bytes of a version that was deployed; of the newest one without a number."""
    deployed = load_deployed(place)
    versions = {version.version: version for version in load_history(place)}
    number = deployed.version if restore is None else restore
    if number not in versions:
        raise SettingsError(
            f"{place.table} has no version {number}",
            expected=f"1 to {deployed.version}",
            found=number,
            hint=f"`sparkhaven schema history {place.table}` lists them",
        )
    if number == deployed.version:
        return place.fs.read(place.schema)
    text = versions[number].text
    if text is None:
        raise SettingsError(
            f"the file of version {number} was not kept. An earlier release deployed it",
            expected="a schema file with the columns of that version",
            found=f"{place.table}: {', '.join(column.name for column in versions[number].columns)}",
            hint=f"`sparkhaven schema deploy FILE --restore {number}` takes the file",
        )
    return text.encode()


def _version(versions: list[Version]) -> dict[str, Any]:
    newest = versions[-1]
    columns = [column.name for column in newest.columns]
    shown: dict[str, Any] = {"version": newest.version, "columns": columns, "sha256": newest.sha256[:16]}
    if len(versions) == 1:
        return shown | {"added": columns, "dropped": [], "renamed": {}, "restored": [], "changed": []}
    before = versions[-2]
    names = {column.id: column.name for column in newest.columns}
    rename = {c.name: names[c.id] for c in before.columns if names.get(c.id, c.name) != c.name}
    kind = TableName("Any", "Any")
    change = compare(recorded_schema(kind, newest), recorded_schema(kind, before), versions[:-1], rename)
    return shown | change.to_json()


def _cell(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{old} to {new}" for old, new in value.items()) or None
    return (", ".join(map(str, value)) or None) if isinstance(value, list) else value
