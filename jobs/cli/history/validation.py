"""Commands on merged dates: ``validate``, and ``truncate`` and ``delete`` of their intraday rows, with proof.

``validate`` takes the default rules, those of the schema, and validators of users. Truncate needs the stored result;
with ``--delete-after`` the same call truncates and deletes.
"""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import (
    DatesOption,
    DryRun,
    GraceOption,
    TableArgument,
    UnevaluatedOption,
    help_end,
)
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.jobs.date_choice import parse_choice
from sparkhaven.jobs.operations.validating import (
    IntradayRemoval,
    Phase,
    ValidationRun,
    remove_intraday,
    stores_nothing,
    validate_dates,
)
from sparkhaven.store.errors import EXIT_BAD_DATA, counted, counted_with
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.merges.validations import RuleResult, Validation
from sparkhaven.writers.merge.publish.publish_phase import GRACE_S
from sparkhaven.writers.removal.history_removal import RemovedDate
from sparkhaven.writers.validation.rules.merge_rules import DIGEST_RULES

NAMES = ("rule", "column", "mode", "passed", "measured", "lower", "upper", "message")
REMOVAL_CODES = {
    "done": "done, or nothing to remove",
    "bad_data": "a date failed: no proof, damaged files",
    "usage": "wrong options, no such table, dates or merge",
    "retry": "another job holds the lock, a volume is not mounted, no space on the disk",
}


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """Which rules run, and which must be evaluated."""

    modes: Annotated[
        list[str] | None,
        typer.Option(
            "--modes",
            metavar="MODE",
            help="Only FULL_DATABASE, FULL_INTRADAY or SIMPLE_TABLE. May be repeated, or separated by commas.",
        ),
    ] = None
    validator: Annotated[
        list[str] | None,
        typer.Option(
            "--validator", metavar="MODULE:FUNCTION", help="A Python function to run as a rule. May be repeated."
        ),
    ] = None
    validator_path: Annotated[
        list[Path] | None,
        typer.Option(
            "--validator-path",
            metavar="DIR",
            parser=local_path,
            help="Directory of modules of validators, searched before Python's own path. May be repeated.",
        ),
    ] = None
    allow_unevaluated: UnevaluatedOption = False


@dataclass(frozen=True, slots=True)
class RemovalAfter:
    """What becomes of intraday rows of dates that have passed."""

    delete_after: Annotated[
        bool,
        typer.Option("--delete-after", help="Then truncate and delete the intraday rows of dates that have passed."),
    ] = False
    grace: GraceOption = GRACE_S


@dataclass(frozen=True, slots=True)
class IntradayDates:
    """Merged dates whose intraday rows go."""

    name: TableArgument
    dates: DatesOption = None
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="VALUE", help="Only this internal partition: its value, or its directory."),
    ] = None
    allow_unevaluated: UnevaluatedOption = False
    dry_run: DryRun = False


def register(app: typer.Typer) -> None:
    lines = (
        "validate Nyc13.Flight --dates 2013-07-04",
        "validate Nyc13.Flight --dates 2013-07-01..2013-07-31 --delete-after",
        "validate Nyc13.Flight --dates 2013-07-04 --validator checks:delays --validator-path ./checks",
    )
    bad_data, usage = "a rule failed or was not evaluated", "wrong options, no such table or dates"
    app.command(epilog=help_end(*lines, done="every date passed", bad_data=bad_data, usage=usage))(validate)
    app.command(epilog=help_end("truncate Nyc13.Flight --dates 2013-07-04 --dry-run", **REMOVAL_CODES))(truncate)
    app.command(epilog=help_end("delete Nyc13.Flight --dates 2013-07-01..2013-07-31", **REMOVAL_CODES))(delete)


def validate(
    cli: CliContext,
    name: TableArgument,
    options: RuleOptions,
    after: RemovalAfter,
    dates: DatesOption = None,
    dry_run: DryRun = False,
) -> None:
    """Validates merged dates against counts, digests and rules.

    The result is stored: truncate needs one that has passed. In a snapshot or a mirror nothing is stored. Rules without
    modes of their own run in FULL_DATABASE, or in those of --modes. --validator runs code: name only functions that
    you trust.
    """
    choice = parse_choice(dates)
    table_place = cli.place(name)
    run = ValidationRun(
        options.modes or (),
        options.validator or (),
        options.validator_path or (),
        options.allow_unevaluated,
        after.delete_after,
        after.grace,
        dry_run,
        cli.note,
        lambda error: traceback.print_exception(error) if cli.verbose else None,
    )
    dry_run = stores_nothing(table_place, run)
    wrong, dates_done = 0, 0
    for date in validate_dates(table_place, choice, run):
        dates_done += 1
        if date.validation is not None:
            show_validation(cli, date.validation)
            if not date.validation.passed:
                cli.fails(EXIT_BAD_DATA)
                wrong += 1
        if date.removed is not None:
            _show_removed(cli, name, date.date, date.removed, dry_run=dry_run)
        if date.error is not None:
            cli.report(date.error, table=name, date=date.date)
            wrong += 1
    cli.note(
        f"{counted(dates_done, 'date')} validated, {wrong:,} failed" + (" (dry run: nothing stored)" if dry_run else "")
    )


def truncate(cli: CliContext, asked: IntradayDates) -> None:
    """Empties the intraday locations of merged dates.

    Only with the proof that history holds all their rows. A date needs a passed validation. A date without one since
    its last merge is validated first.
    """
    _remove(cli, "truncate", asked)


def delete(cli: CliContext, asked: IntradayDates, grace: GraceOption = GRACE_S) -> None:
    """Removes the files of truncated dates.

    Only once no reader can be using them. Rows that came since stay.
    """
    _remove(cli, "delete", asked, grace)


def show_validation(cli: CliContext, validation: Validation) -> None:
    """Prints one line a date; below it the rules that did not pass, with ``-v`` and in JSON all of them."""
    record = {
        "table": validation.table,
        "date": validation.value,
        "generation": validation.generation,
        "rows": validation.rows,
        "passed": validation.passed,
        "not_evaluated": len(validation.unevaluated),
        "modes": list(validation.modes),
        "epochs": validation.epochs,
        "rules": [{name: getattr(rule, name) for name in NAMES} for rule in ordered(validation)],
    }

    def print_text() -> None:
        rows, rules = counted(validation.rows, "row"), counted(len(validation.results), "rule")
        print(f"{validation.value}: {_outcome(validation)}, {rows}, {rules}")
        shown = [rule for rule in ordered(validation) if cli.verbose or _matters(rule)]
        cells = [[_cell(cli, rule, name) for name in NAMES] for rule in shown]
        if cells:
            table(NAMES, cells)

    cli.result(record, print_text)


def _show_removed(cli: CliContext, name: str, value: str, removed: RemovedDate, *, dry_run: bool) -> None:
    """Prints what ``--delete-after`` has done, in one line a date."""
    parts = {"truncated": removed.truncated, "deleted": removed.deleted}
    listed = {
        part: [{"stream": stream, "source": internal, "rows": rows} for stream, internal, rows in locations]
        for part, locations in parts.items()
    }
    about = {"table": name, "date": value, "phase": "removal", **listed, "waiting": list(removed.waiting)}
    affected = max(sum(rows for *_, rows in locations) for locations in parts.values())
    words = [
        f"{counted(len(locations), 'location')} {part}, {counted(sum(rows for *_, rows in locations), 'row')}"
        for part, locations in parts.items()
        if locations
    ]
    if removed.waiting:
        words.append(f"{counted_with(len(removed.waiting), 'source', 'wait for readers')}: {removed.reason}")
    text = f"{value}: {'; '.join(words) or 'no intraday rows are left'}{' (dry run)' if dry_run else ''}"
    cli.result({**about, "reason": removed.reason, "affected": affected, "dry_run": dry_run}, text)
    for line in removed.unfinished:
        cli.note(line)


def ordered(validation: Validation) -> list[RuleResult]:
    """Failed rules, then those not evaluated, then the rest, each in the order of the schema."""
    rest = [rule for rule in validation.results if rule.passed]
    return [*validation.failed, *validation.unevaluated, *rest]


def _outcome(validation: Validation) -> str:
    parts = [f"{len(validation.failed)} failed"] if validation.failed else []
    parts += [f"{len(validation.unevaluated)} not evaluated"] if validation.unevaluated else []
    numbers = f" ({', '.join(parts)})" if parts else ""
    return f"{'passed' if validation.passed else 'FAILED'}{numbers}"


def _matters(rule: RuleResult) -> bool:
    return not rule.passed or rule.rule == "LaterRows" or rule.rule.startswith("assert")


def _cell(cli: CliContext, rule: RuleResult, name: str) -> Any:
    cell = getattr(rule, name)
    if rule.rule in DIGEST_RULES and name in ("measured", "lower", "upper") and not cli.verbose:
        return None  # 32 digits; -v and --json have them
    return "not evaluated" if name == "passed" and cell is None else cell


def _remove(cli: CliContext, phase: Phase, asked: IntradayDates, grace: float = GRACE_S) -> None:
    choice, name, dry_run = parse_choice(asked.dates), asked.name, asked.dry_run
    locations, rows, begun = 0, 0, time.monotonic()
    removal = IntradayRemoval(choice, asked.source, asked.allow_unevaluated, dry_run, grace)
    for date in remove_intraday(cli.place(name), phase, removal, cli.note):
        value, done = date.date, date.removed
        if date.error is not None or done is None:
            cli.report(date.error or RuntimeError(value), table=name, date=value)
            continue
        locations, rows = locations + len(done.locations), rows + done.rows
        listed = [{"stream": stream, "source": internal, "rows": n} for stream, internal, n in done.locations]
        result = {"table": name, "date": value, "phase": done.phase, "locations": listed, "rows": done.rows}
        text = f"{value}: {done.phase} of {counted(len(listed), 'location')}, {counted(done.rows, 'row')}"
        text += " (dry run)" if dry_run else ""
        if not (listed or done.since):
            text = f"{value}: nothing to {done.phase}, intraday has no rows of it"
        cli.result({**result, "dry_run": dry_run}, text)
        for line in done.unfinished:
            cli.note(line)
        if done.since:
            later = sum(count for _, _, count in done.since)
            cli.note(f"{value}: {counted(later, 'row')} came since. Merge the date again")
    cli.note(f"{counted(locations, 'location')}, {counted(rows, 'row')} in {time.monotonic() - begun:.1f} s")
