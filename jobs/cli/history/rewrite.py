"""Commands that correct rows: ``rewrite-column`` computes columns of history anew, ``delete-rows`` takes rows out.

History gets a new generation of each date, and rows that are not merged go by an epoch of their stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext, error_json
from sparkhaven.jobs.cli.options import DatedRun, DatesOption, DryRun, LossyOption, TableArgument, help_end
from sparkhaven.jobs.date_choice import parse_choice
from sparkhaven.jobs.operations.rewriting import delete_rows, rewrite_dates
from sparkhaven.store.errors import SettingsError, as_ours, counted
from sparkhaven.writers.merge.date_result import DateResult, MergeOutcome
from sparkhaven.writers.merge.plan.merge_plan import PARALLEL_ROWS, MergeOptions
from sparkhaven.writers.rewrites.rewrite_plan import ColumnChanges
from sparkhaven.writers.rewrites.row_deletion import DeletedRows


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """What is changed of columns."""

    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="COL=EXPR", help="Compute a column from those of the same row. May be repeated."),
    ] = None
    add: Annotated[
        list[str] | None, typer.Option("--add", metavar="COL", help="Write a column that old dates lack.")
    ] = None
    drop: Annotated[
        list[str] | None, typer.Option("--drop", metavar="COL", help="Remove a column that schema deploy has dropped.")
    ] = None
    rename: Annotated[
        list[str] | None,
        typer.Option("--rename", metavar="OLD=NEW", help="Bring files to a name that schema deploy has changed."),
    ] = None
    retype: Annotated[
        list[str] | None,
        typer.Option("--retype", metavar="COL=TYPE", help="Bring files to a type that schema deploy has widened."),
    ] = None
    lossy: LossyOption = None

    @property
    def changes(self) -> ColumnChanges:
        """The changes as values. SettingsError: a pair is none, or names a column twice."""
        return ColumnChanges(
            add=tuple(self.add or ()),
            drop=tuple(self.drop or ()),
            rename=_pairs("--rename", self.rename, "OLD=NEW"),
            retype=_pairs("--retype", self.retype, "COL=TYPE"),
            set=_pairs("--set", self.set_, "COL=EXPR"),
            lossy=frozenset(self.lossy or ()),
        )


def register(app: typer.Typer) -> None:
    lines = (
        'rewrite-column Nyc13.Flight --dates 2013-07-04 --set "distance=distance * 2" --dry-run',
        "rewrite-column Nyc13.Flight --dates 2013-07-01..2013-07-31 --retype distance=long",
    )
    usage = "wrong options, no such table, dates or column, an expression that cannot be used"
    retry = "a merge runs, no space on the disk"
    done = "rewritten, or rewritten before"
    app.command(
        "rewrite-column", epilog=help_end(*lines, done=done, bad_data="a date failed", usage=usage, retry=retry)
    )(rewrite_column)
    line = "delete-rows Nyc13.Flight --where 'dep_delay < -600' --dates 2013-07-04 --dry-run"
    usage = "wrong options, no such table or date, no such column"
    retry = "a stream that has such rows or a merge runs"
    done = "deleted, or no row matches"
    app.command("delete-rows", epilog=help_end(line, done=done, bad_data="a date failed", usage=usage, retry=retry))(
        delete_rows_command
    )


def rewrite_column(
    cli: CliContext,
    name: TableArgument,
    options: ChangeOptions,
    run: DatedRun,
    dates: DatesOption = None,
    again: Annotated[bool, typer.Option("--again", help="Also where a date was rewritten so before.")] = False,
) -> None:
    """Rewrites columns of history, as new generations.

    Equal digests prove that no other column changes. Intraday stays as it is. The merge record has what was changed:
    validate, truncate and later merges expect it. An expression is SQL over the columns
    of one row, as for --where.
    """
    merging = MergeOptions(
        memory=run.workers.bytes,
        workers=run.workers.workers or 1,
        parallel_rows=cli.limits.merged_rows or PARALLEL_ROWS,
    )
    results = rewrite_dates(cli.place(name), options.changes, parse_choice(dates), run.of(cli), merging, again=again)
    _show(cli, name, results, run.dry_run)


def _pairs(option: str, texts: list[str] | None, form: str) -> dict[str, str]:
    """``A=B`` as pairs; SettingsError for a text without them, or for a name that is given twice."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise SettingsError(f"{option} is no pair", expected=form, found=repr(text))
        if name in pairs:
            raise SettingsError(f"{option} names a column twice", expected="each column once", found=name)
        pairs[name] = value
    return pairs


def _show(cli: CliContext, name: str, results: Iterator[DateResult], dry_run: bool) -> None:
    """Prints one result a date as it comes; the exit code is that of the first error."""
    dates, rows = 0, 0
    for done in results:
        dates += 1
        here = [correction for correction in done.corrections if correction.generation == done.generation]
        count = done.rows_in - done.left_out if dry_run else done.rows_out
        rows += count
        record = {
            "table": name,
            "date": done.value,
            "outcome": done.outcome,
            "phase": done.phase,
            "rows": count,
            "generation": done.generation,
            "format": done.format,
            "columns": {
                c.name: {"value": c.value, "changed": c.changed, "nulls": c.rows - c.filled_after} for c in here
            },
            "columns_dropped": dict(done.drops),
            "seconds": round(done.seconds, 3),
            "dry_run": dry_run,
        }
        if done.error is not None:
            record["error"] = cli.failed(done.value, done.error)
        if done.clean_error is not None:
            record["clean_error"] = error_json(as_ours(done.clean_error))
            cli.note(
                f"{done.value}: files of an earlier generation could not be removed. `sparkhaven clean {name}` does"
            )
        cli.result(record, f"{done.value}: {_sentence(done, count)}")
    cli.note(f"{counted(dates, 'date')}, {counted(rows, 'row')}{' to rewrite (dry run)' if dry_run else ''}")


def _sentence(done: DateResult, rows: int) -> str:
    if done.outcome is MergeOutcome.NOTHING:
        return "rewritten before, nothing to change"
    if done.outcome is MergeOutcome.FAILED:
        return done.outcome
    here = [correction for correction in done.corrections if correction.generation == done.generation]
    parts = [f"{c.name} changed in {counted(c.changed, 'row')}" for c in here]
    parts += [f"without {column} ({counted(count, 'row')} with values)" for column, count in done.drops]
    verb = "would rewrite" if done.outcome is MergeOutcome.PLANNED else done.outcome
    return ", ".join([f"{verb} {counted(rows, 'row')} as generation {done.generation}", *parts])


def delete_rows_command(
    cli: CliContext,
    name: TableArgument,
    where: Annotated[str, typer.Option(metavar="EXPR", help="The rows to delete, in SQL: 'Size < 0 AND Sym IS NULL'.")],
    dates: DatesOption = None,
    dry_run: DryRun = False,
) -> None:
    """Deletes rows that match, from intraday and history.

    Rows that are not merged go by a new epoch. Older epochs still show them. The next merge leaves them out. Stop the
    streams that have such rows before. Merged rows go by a new generation of their date. Both are proved: validate and
    truncate accept exactly that, and later merges keep it.
    """
    done = delete_rows(cli.place(name), where, dates, cli.note, dry_run=dry_run)
    matching = done.matching
    rows = matching.rows if dry_run else done.rows
    counts = matching.of_dates() if dry_run else done.of_dates()
    merged = matching.history if dry_run else {date: deletion.rows for date, deletion in done.history.items()}
    record = {
        "table": name,
        "where": where,
        "rows": rows,
        "epoch": next(iter(done.epochs.values())) if len(done.epochs) == 1 else None,
        "epochs": done.epochs,
        "dates": counts,
        "merged": merged,
        "generations": {date: deletion.generation for date, deletion in done.history.items()},
        "dry_run": dry_run,
    }
    if done.failed:
        record["errors"] = {date: cli.failed(date, error) for date, error in done.failed.items()}
    for date, count in counts.items():
        of_history = f", {merged[date]:,} of them in history" if date in merged else ""
        cli.note(f"{date}: {count:,} of {counted(matching.dates.get(date, count), 'row')}{of_history}")
    _show_deleted(cli, record, done, f"{counted(rows, 'row')} of {counted(len(counts), 'date')}", dry_run)


def _show_deleted(cli: CliContext, record: dict[str, object], done: DeletedRows, words: str, dry_run: bool) -> None:
    parts = [f"{stream} epoch {epoch}" for stream, epoch in done.epochs.items()]
    parts += [f"{date} as generation {deletion.generation}" for date, deletion in done.history.items()]
    if not done.matching.rows:
        cli.result(record, "no row matches")
    elif dry_run:
        cli.result(record, f"would delete {words}")
    else:
        cli.result(record, f"deleted {words}: {', '.join(parts) or 'none'}")
