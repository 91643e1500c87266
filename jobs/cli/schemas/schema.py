"""Commands on schemas: ``schema check|show``, and those of the other modules of the package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sparkhaven.jobs.cli.context import CliContext, error_json
from sparkhaven.jobs.cli.options import DryRun, TableArgument, group, help_end
from sparkhaven.jobs.cli.schemas import infer as infer_commands
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.jobs.monitor.schema_versions import schema_versions
from sparkhaven.jobs.monitor.texts import iso_time
from sparkhaven.jobs.settings.stream_schema import deploy_schema
from sparkhaven.store.errors import EXIT_BAD_DATA, SettingsError, SparkhavenError
from sparkhaven.store.format.table.tbl import read_definition
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import Deployment, load_deployed, load_history
from sparkhaven.store.schema.deployed.schema_changes import Consent, compare
from sparkhaven.store.schema.differences import schema_differences
from sparkhaven.store.schema.document.describe import describe, findings_text, schema_text
from sparkhaven.store.schema.document.schema_file import check_schema, load_schema, tbl_schema
from sparkhaven.store.schema.document.validator_rules import unbuilt_indexes
from sparkhaven.store.types.model import TableSchema


def register(app: typer.Typer) -> None:
    schema = group("Check, show, infer and deploy schemas.")
    lines = "schema check conf/schemas/Nyc13.Flight.schema", "schema check Nyc13.Flight.schema --against ./demo-db"
    usage = "no such file, or a start would refuse it"
    schema.command(epilog=help_end(*lines, done="no errors", bad_data="a schema has errors", usage=usage))(check)
    lines = "schema show Nyc13.Flight", "schema show my/Nyc13.Flight.schema --json"
    schema.command(epilog=help_end(*lines, usage="no such table or file, or the schema has errors"))(show)
    deploys = (
        "schema deploy Nyc13.Flight.schema --drop tailnum --dry-run",
        "schema deploy Nyc13.Flight.schema --rename dest=destination",
        "schema deploy Nyc13.Flight --restore 3",
    )
    usage = "the schema has errors, or changes more than is said: the message names columns and commands"
    schema.command(epilog=help_end(*deploys, usage=usage))(deploy)
    schema.command(epilog=help_end("schema history Nyc13.Flight", usage="no such table"))(history)
    pairs = "schema diff old/Nyc13.Flight.schema Nyc13.Flight.schema", "schema diff Nyc13.Flight Nyc13.Flight.schema"
    end = help_end(*pairs, done="no differences", bad_data="the schemas differ", usage="no such table or file")
    schema.command(epilog=end)(diff)
    infer_commands.register(schema)
    app.add_typer(schema, name="schema")


def check(
    cli: CliContext,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", parser=local_path, help="Schema files.")],
    against: Annotated[
        Path | None,
        typer.Option(
            "--against", metavar="ROOT", parser=local_path, help="Also say what a start in this database would do."
        ),
    ] = None,
) -> None:
    """Reports errors and warnings of schema files by line."""
    for path in files:
        findings, _ = check_schema(Fs(), path)
        errors = sum(finding.severity == "error" for finding in findings)
        record = {"file": str(path), "errors": errors, "findings": [finding.to_json() for finding in findings]}
        text = f"{path}: {findings_text(findings)}" if not findings else findings_text(findings)
        if errors:
            cli.code = EXIT_BAD_DATA
        elif against is not None:
            try:
                change = deploy_schema(Fs(), Layout(against.absolute()), path, dry_run=True)
            except SparkhavenError as error:
                cli.result({**record, "error": error_json(error)}, text)
                cli.note(f"sparkhaven: {error}")
                cli.fails(error.exit_code)
                continue
            record |= {"version": change.schema.version, "before": change.before, **change.change.to_json()}
            text += f"\n{_would_do(change)}"
        cli.result(record, text)


def _would_do(change: Deployment) -> str:
    name, version = change.schema.full_name, change.schema.version
    if not change.written:
        return f"{name}: version {version} is deployed already"
    return f"{name}: a start would deploy version {version}, which {change.change.words()}"


def show(
    cli: CliContext,
    subject: Annotated[str, typer.Argument(metavar="NS.T|FILE", help="A deployed table, or a schema file.")],
) -> None:
    """Shows columns, indexes and validation rules of a table."""
    if subject.endswith(".schema") or "/" in subject:
        file = load_schema(Fs(), local_path(subject))
        cli.result(describe(file.schema, file), schema_text(file.schema))
    else:
        schema = load_deployed(cli.place(subject))
        cli.result(describe(schema), schema_text(schema))


FILE = "A schema file, or a deployed table, NS.T."


def deploy(
    cli: CliContext,
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
    of a file, --restore deploys that version again, and --drop drops a column that was retired without a command.
    """
    fs, layout = Fs(), cli.layout()
    consent = Consent(tuple(drop or ()), tuple(map(_pair, rename or ())), restore, changes=True)
    source: Path | bytes
    if is_schema_file(file):
        source = local_path(file)
    else:
        source = _text_of(TablePlace(fs, layout, TableName.parse(file)), restore)
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


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise SettingsError("--rename is not a pair of names", expected="OLD=NEW", found=repr(text))
    return old, new


def is_schema_file(word: str) -> bool:
    return word.endswith(".schema") or "/" in word or local_path(word).is_file()


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
            f"the file of version {number} was not kept. It is not in UTF-8",
            expected="a schema file with the columns of that version",
            found=f"{place.table}: {', '.join(column.name for column in versions[number].columns)}",
            hint=f"`sparkhaven schema deploy FILE --restore {number}` takes the file",
        )
    return text.encode()


SIDE = "A schema file, a .tbl file, or a deployed table, NS.T."


def history(cli: CliContext, name: TableArgument) -> None:
    """Shows what each version of a table's schema has changed.

    Shows also when rows were first and last written by it, as far as locations and merges tell. Columns that are gone
    are listed with the last version that has them.
    """
    versions, retired = schema_versions(cli.place(name))
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
    cli: CliContext,
    first: Annotated[str, typer.Argument(metavar="A", help=SIDE)],
    second: Annotated[str, typer.Argument(metavar="B", help=SIDE)],
) -> None:
    """Shows how schema B differs from schema A.

    Compares columns with role, type, storage, charset and codec, their order, and what is said of the table. Ids are
    compared where both are deployed tables.
    """
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
    if differences:
        cli.fails(EXIT_BAD_DATA)


def _schema(cli: CliContext, word: str) -> TableSchema:
    if word.endswith(".tbl"):
        return tbl_schema(read_definition(Fs(), local_path(word))[0])
    if is_schema_file(word):
        return load_schema(Fs(), local_path(word)).materialised().schema
    return load_deployed(cli.place(word))


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
