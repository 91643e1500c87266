"""The command ``schema deploy``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import DryRun, help_end
from sparkhaven.jobs.settings.deployment import deploy_schema
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed, load_history
from sparkhaven.store.schema.deployed.schema_changes import Consent
from sparkhaven.store.schema.document.schema_checks import unbuilt_indexes

FILE = "A schema file, or a deployed table, NS.T."


def register(schema: typer.Typer) -> None:
    lines = (
        "schema deploy Nyc13.Flight.schema --drop tailnum --dry-run",
        "schema deploy Nyc13.Flight.schema --rename dest=destination",
        "schema deploy Nyc13.Flight --restore 3",
    )
    usage = "the schema has errors, or changes more than is said: the message names columns and commands"
    schema.command(epilog=help_end(*lines, usage=usage))(deploy)


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
            f"the file of version {number} was not kept. An earlier release deployed it",
            expected="a schema file with the columns of that version",
            found=f"{place.table}: {', '.join(column.name for column in versions[number].columns)}",
            hint=f"`sparkhaven schema deploy FILE --restore {number}` takes the file",
        )
    return text.encode()
