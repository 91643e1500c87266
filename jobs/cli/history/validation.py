"""The command ``validate``: the default rules, those of the schema, and users' validators.

Truncate needs the stored result; with ``--delete-after`` the same call truncates and deletes.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import DatesOption, DryRun, GraceOption, TableArgument, UnevaluatedOption, help_end
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.jobs.date_choice import parse_choice
from sparkhaven.jobs.operations.validating import ValidationRun, stores_nothing, validate_dates
from sparkhaven.store.errors import EXIT_BAD_DATA, counted, counted_with
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.merges.validations import RuleResult, Validation
from sparkhaven.writers.merge.publish.publish_phase import GRACE_S
from sparkhaven.writers.removal.history_removal import RemovedDate
from sparkhaven.writers.validation.rules.merge_rules import DIGEST_RULES

NAMES = ("rule", "column", "mode", "passed", "measured", "lower", "upper", "message")


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


def register(app: typer.Typer) -> None:
    lines = (
        "validate Nyc13.Flight --dates 2013-07-04",
        "validate Nyc13.Flight --dates 2013-07-01..2013-07-31 --delete-after",
        "validate Nyc13.Flight --dates 2013-07-04 --validator checks:delays --validator-path ./checks",
    )
    bad_data, usage = "a rule failed or was not evaluated", "wrong options, no such table or dates"
    app.command(epilog=help_end(*lines, done="every date passed", bad_data=bad_data, usage=usage))(validate)


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
