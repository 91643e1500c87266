"""The command ``migrate``: which on-disk forms the files of tables have, and the newest ones for old files."""

from __future__ import annotations

import typer

from sparkhaven.jobs.cli.context import CliContext, exit_with, report
from sparkhaven.jobs.cli.options import AnyTableArgument, DryRun, help_end
from sparkhaven.jobs.operations.migration import FileForm, forms_of, migrate_table
from sparkhaven.store.errors import EXIT_DONE, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.system_errors import as_ours
from sparkhaven.store.layout import TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deployed_tables, load_deployed


def register(app: typer.Typer) -> None:
    end = help_end(
        "migrate --dry-run",
        done="done, or nothing is old",
        bad_data="damaged files, files of a newer release",
        retry="a stream or a merge runs, no space on the disk",
    )
    app.command(epilog=end)(migrate)


def migrate(ctx: typer.Context, name: AnyTableArgument = None, dry_run: DryRun = False) -> None:
    """Brings files of earlier releases to the newest forms.

    Every release reads what earlier ones wrote, so it is never needed. It reports the forms of each kind of file that
    a table has, and rewrites old ones whole: logs, checkpoints, heads, ledgers, schema histories, indexes. Older
    releases may not read them then. Data files are not touched. Streams of the table must not run.
    """
    cli: CliContext = ctx.obj
    fs, layout = Fs(), cli.database()
    tables = [TableName.parse(name)] if name else deployed_tables(fs, layout)
    code = EXIT_DONE
    for table in tables:
        place = TablePlace(fs, layout, table)
        try:
            load_deployed(place)
            forms = forms_of(place)
            old = sum(form.files for form in forms if form.old)
            if old and not dry_run:
                migrate_table(place, forms)
                forms = forms_of(place)
        except (SparkhavenError, OSError) as error:
            failed = report(cli, as_ours(error), table=str(table))
            code = code or failed
            continue
        shown = [
            {"kind": form.kind, "version": form.version, "newest": form.newest, "files": form.files, "old": form.old}
            for form in forms
        ]
        verb = "would migrate" if dry_run else "migrated"
        lines = [f"{table}: {verb} {old:,} files" if old else f"{table}: nothing is old", *map(_line, forms)]
        cli.result({"table": str(table), "forms": shown, "migrated": old, "dry_run": dry_run}, "\n".join(lines))
    exit_with(code)


def _line(form: FileForm) -> str:
    return f"  {form.kind}, version {form.version}: {form.files:,} files" + (" (old)" if form.old else "")
