"""The command ``validate``: the default rules and those of the schema; truncate needs the stored result."""

from __future__ import annotations

import time
from typing import Any

import typer

from sparkhaven.jobs.cli.context import CliContext, exit_with, report
from sparkhaven.jobs.cli.options import DatesOption, DryRun, TableArgument, UnevaluatedOption, help_end
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.jobs.date_choice import intraday_dates, parse_choice
from sparkhaven.store.epochs.reading.stream_state import newest_states
from sparkhaven.store.errors import EXIT_BAD_DATA, EXIT_DONE, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.merge_records import all_values, newest
from sparkhaven.store.merges.validations import RuleResult, Validation, store_validation
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.validation.date_validation import validate_date

NAMES = ("rule", "column", "mode", "passed", "measured", "lower", "upper", "message")


def register(app: typer.Typer) -> None:
    lines = "validate Nyc13.Flight --dates 2013-07-04", "validate Nyc13.Flight --dates 2013-07-01..2013-07-31 -v"
    bad_data, usage = "a rule failed or was not evaluated", "wrong options, no such table or dates"
    app.command(epilog=help_end(*lines, done="every date passed", bad_data=bad_data, usage=usage))(validate)


def validate(
    ctx: typer.Context,
    name: TableArgument,
    dates: DatesOption = None,
    allow_unevaluated: UnevaluatedOption = False,
    dry_run: DryRun = False,
) -> None:
    """Validates merged dates against counts, digests and rules.

    The result is stored: truncate needs one that has passed.
    """
    cli: CliContext = ctx.obj
    choice = parse_choice(dates)
    place = TablePlace(Fs(), cli.database(), TableName.parse(name))
    load_deployed(place)
    merged = [value for value in all_values(place) if newest(place, value)]
    values = choice.pick(merged, time.time(), lambda: intraday_dates(newest_states(place)), "merged ")
    code, wrong, pins = EXIT_DONE, 0, Pins(place)
    for value in values:
        try:
            validation = validate_date(
                place, value, pins=pins, tolerant=allow_unevaluated, time_ms=int(time.time() * 1000)
            )
            if not dry_run:
                store_validation(place, validation)
        except SparkhavenError as error:  # the other dates are validated all the same
            failed = report(cli, error, table=name, date=value)
            code, wrong = code or failed, wrong + 1
            continue
        if not validation.passed:
            code, wrong = code or EXIT_BAD_DATA, wrong + 1
        show_validation(cli, validation)
    cli.note(f"{len(values):,} dates validated, {wrong:,} failed" + (" (dry run: nothing stored)" if dry_run else ""))
    exit_with(code)


def show_validation(cli: CliContext, validation: Validation) -> None:
    """Prints one line a date; below it the rules that did not pass, with ``-v`` and in JSON all of them."""
    record = {
        "table": validation.table,
        "date": validation.value,
        "generation": validation.generation,
        "rows": validation.rows,
        "passed": validation.passed,
        "not_evaluated": len(validation.unevaluated),
        "epochs": validation.epochs,
        "rules": [{name: getattr(rule, name) for name in NAMES} for rule in ordered(validation)],
    }

    def print_text() -> None:
        print(f"{validation.value}: {_outcome(validation)}, {validation.rows:,} rows, {len(validation.results)} rules")
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
    if rule.rule == "DigestEqual" and name in ("measured", "lower", "upper") and not cli.verbose:
        return None  # 32 digits; -v and --json have them
    return "not evaluated" if name == "passed" and cell is None else cell
