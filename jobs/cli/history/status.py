"""The commands ``drop``, of a whole table, and ``clean``; ``merge --status``, which reports unfinished dates."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext, report
from sparkhaven.jobs.cli.options import AnyTableArgument, DryRun, TableArgument, YesOption, help_end
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.jobs.monitor.dates import DateStatus, DateValidation, table_status
from sparkhaven.jobs.operations.history_dates import CleanedTable, clean_tables
from sparkhaven.store.errors import SettingsError, SparkhavenError, counted
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.dropped_tables import DropPhase, TableDrop, drop_path
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed, user_tables
from sparkhaven.writers.merge.publish.publish_phase import GRACE_S, Replaced
from sparkhaven.writers.removal.table_removal import drop_table, due_s


def register(app: typer.Typer) -> None:
    lines = "clean Nyc13.Flight --dry-run", "clean"
    done, retry = "done, also if nothing may be removed yet", "a merge runs"
    app.command("clean", epilog=help_end(*lines, done=done, bad_data="damaged records", retry=retry))(clean_command)
    app.command(
        "drop",
        epilog=help_end(
            "drop Nyc13.Flight --dry-run",
            "drop Nyc13.Flight --yes",
            done="dropped, and its files are removed or wait for their grace period",
            usage="no such table, a stream of it runs, or --yes is missing",
            retry="a merge or removal of the table runs, a volume is not mounted",
        ),
    )(drop)


def show_status(cli: CliContext, fs: Fs, layout: Layout, name: str | None) -> None:
    """Prints totals and a line for every unfinished date, with ``-v`` for all."""
    names = user_tables(fs, layout) if name is None else [TableName.parse(name)]
    if name is not None:
        load_deployed(TablePlace(fs, layout, names[0]))
    for table_name in names:
        try:
            dates = table_status(TablePlace(fs, layout, table_name), time.time())
        except SparkhavenError as error:  # report the other tables all the same
            cli.code = report(cli, error, table=str(table_name))
            continue
        _show_table(cli, table_name, dates)


def _show_table(cli: CliContext, name: TableName, dates: list[DateStatus]) -> None:
    unfinished = [date for date in dates if not date.done]
    counts = {
        "dates": len(dates),
        "unmerged": sum(bool(date.unmerged) for date in dates),
        "unvalidated": sum(date.validation not in (DateValidation.PASSED, None) for date in dates),
        "untruncated": sum(bool(date.untruncated) for date in dates),
        "unfinished": sum(date.unfinished is not None for date in dates),
        "replaced": sum(len(date.replaced) for date in dates),
    }

    def print_text() -> None:
        numbers = ", ".join(f"{number:,} {state}" for state, number in counts.items() if state != "dates")
        print(f"{name}, {counted(counts['dates'], 'date')}: {numbers}")
        rows = [
            (e.value, e.unmerged, e.merged, e.validation, e.untruncated, e.unfinished, len(e.replaced))
            for e in (dates if cli.verbose else unfinished)
        ]
        if rows:
            header = "date", "unmerged rows", "merged rows", "validation", "untruncated rows", "unfinished after"
            table((*header, "replaced"), rows)

    cli.result({"table": str(name), **counts, "unfinished_dates": [_json(date) for date in unfinished]}, print_text)


def _json(date: DateStatus) -> dict[str, object]:
    return {
        "date": date.value,
        "unmerged_rows": date.unmerged,
        "merged_rows": date.merged,
        "generation": date.generation,
        "validation": date.validation,
        "untruncated_rows": date.untruncated,
        "unfinished_after": date.unfinished,
        "replaced": [_replaced(old) for old in date.replaced],
    }


def _replaced(old: Replaced) -> dict[str, object]:
    return {
        "date": old.value,
        "internal": old.internal,
        "path": str(old.path),
        "bytes": old.size,
        "due_s": round(old.due_s, 1),
    }


def clean_command(cli: CliContext, name: AnyTableArgument = None, dry_run: DryRun = False) -> None:
    """Removes replaced generations of history.

    Only once no reader can be using them. The same for files of dropped tables.
    """
    layout = cli.database()
    for done in clean_tables(layout, name, dry_run=dry_run):
        if done.error is not None:
            cli.code = report(cli, done.error, table=str(done.table))
        elif done.drop is not None:
            place, waits = TablePlace(Fs(), layout, done.table), due_s(done.drop, time.time())
            record = {**drop_json(place, done.drop, waits), "dry_run": dry_run}
            cli.result(record, drop_line(done.drop, waits, dry_run=dry_run))
        else:
            _show_cleaned(cli, done, dry_run=dry_run)


def _show_cleaned(cli: CliContext, done: CleanedTable, *, dry_run: bool) -> None:
    gone, later = done.removed, done.waiting
    lists = {"removed": [_replaced(old) for old in gone], "waiting": [_replaced(old) for old in later]}
    size = sum(old.size for old in gone)
    verb = "would remove" if dry_run else "removed"
    text = f"{verb} {counted(len(gone), 'replaced location')}, {counted(size, 'byte')}. In grace period: {len(later)}"
    lines = [f"{done.table}: {text}", *(f"  {old.path}" for old in gone)]
    lines += [f"  {old.path}: in {old.due_s:.0f} s" for old in later]
    cli.result({"table": str(done.table), "dry_run": dry_run, "bytes": size, **lists}, "\n".join(lines))


def drop(
    cli: CliContext,
    name: TableArgument,
    yes: YesOption = False,
    grace: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Grace period for readers, before files are removed.")
    ] = GRACE_S,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the record.")] = "dropped by command",
    dry_run: DryRun = False,
) -> None:
    """Drops a table: rows, history, schema, quarantine and logs.

    Readers find no such table from then on. Those that have it open go on, because its files stay for the grace
    period. The same command, or `clean`, removes them after that. Then a table of that name can be created.

    A record stays: rows and digests of each date, numbers of the streams, and the schema. Snapshots are not touched.

    It is safe to kill: a repeat goes on.
    """
    place = cli.place(name)
    if not yes and not dry_run:
        planned = drop_table(place, reason, clock=time.time, grace_s=grace, dry_run=True)
        raise SettingsError(
            f"dropping {name} is not confirmed",
            expected="--yes",
            found=_rows(planned),
            hint=f"`sparkhaven snapshot {name} --out DIR` keeps a copy. `sparkhaven drop {name} --yes` drops it",
        )
    dropped = drop_table(place, reason, clock=time.time, grace_s=grace, dry_run=dry_run, note=cli.note)
    waits = due_s(dropped, time.time(), grace)
    cli.result({**drop_json(place, dropped, waits), "dry_run": dry_run}, drop_line(dropped, waits, dry_run=dry_run))


def drop_json(place: TablePlace, dropped: TableDrop, waits: float) -> dict[str, object]:
    """A drop as JSON; ``waits``: seconds until its files may be removed."""
    removed = dropped.phase is DropPhase.REMOVED
    return {
        "table": dropped.table,
        "phase": dropped.phase,
        "intraday_rows": dropped.intraday_rows,
        "history_rows": dropped.history_rows,
        "dates": len(dropped.dates),
        "streams": [stream.stream for stream in dropped.streams],
        "bytes": dropped.size,
        "kept": list(dropped.kept),
        "due_s": None if removed else round(waits, 1),
        "record": str(drop_path(place, dropped.number)),
    }


def _rows(dropped: TableDrop) -> str:
    return f"{counted(dropped.intraday_rows, 'intraday row')}, {counted(dropped.history_rows, 'row')} of history"


def drop_line(dropped: TableDrop, waits: float, *, dry_run: bool) -> str:
    """A drop in a line, and one for each quarantine that other streams share."""
    what = f"{dropped.table}: {{}} {_rows(dropped)}, {counted(dropped.size, 'byte')}"
    if dry_run:
        return what.format("would drop")
    if dropped.phase is not DropPhase.REMOVED:
        again = f"`sparkhaven drop {dropped.table} --yes` removes the files"
        return f"{what.format('dropped')}. In {waits:,.0f} s {again}"
    return "\n".join([what.format("removed"), *(f"{path} stays: other streams share it" for path in dropped.kept)])
