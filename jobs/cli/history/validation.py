"""The command ``validate``: the default rules, those of the schema, and users' validators.

Truncate needs the stored result; with ``--delete-after`` the same call truncates and deletes.
"""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from sparkhaven.jobs.cli.context import CliContext, exit_with, report
from sparkhaven.jobs.cli.groups import with_groups
from sparkhaven.jobs.cli.options import DatesOption, DryRun, GraceOption, TableArgument, UnevaluatedOption, help_end
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.jobs.date_choice import intraday_dates, parse_choice
from sparkhaven.store.epochs.reading.stream_state import newest_states
from sparkhaven.store.errors import EXIT_BAD_DATA, EXIT_DONE, SettingsError, SparkhavenError, meant
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.io.read_only_roots import is_copy
from sparkhaven.store.io.system_errors import as_ours
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.merge_records import all_values, newest
from sparkhaven.store.merges.validations import RuleResult, Validation, store_validation
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.schema.document.validator_rules import MODES
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.publish.publish_phase import GRACE_S
from sparkhaven.writers.removal.history_removal import RemovedDate, truncate_and_delete
from sparkhaven.writers.removal.removal_proof import prove
from sparkhaven.writers.removal.state_cache import States
from sparkhaven.writers.validation.date_validation import validate_date
from sparkhaven.writers.validation.rule_runs import RuleChoice
from sparkhaven.writers.validation.rules.merge_rules import DIGEST_RULES
from sparkhaven.writers.validation.validators.loading import load_validators

ModesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--modes",
        metavar="MODE",
        help="Only FULL_DATABASE, FULL_INTRADAY or SIMPLE_TABLE. May be repeated, or separated by commas.",
    ),
]
ValidatorOption = Annotated[
    list[str] | None,
    typer.Option("--validator", metavar="MODULE:FUNCTION", help="A Python function to run as a rule. May be repeated."),
]
ValidatorPathOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--validator-path",
        metavar="DIR",
        parser=local_path,
        help="Directory of modules of validators, searched before Python's own path. May be repeated.",
    ),
]
DeleteAfterOption = Annotated[
    bool,
    typer.Option("--delete-after", help="Then truncate and delete the intraday rows of dates that have passed."),
]
NAMES = ("rule", "column", "mode", "passed", "measured", "lower", "upper", "message")


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """Which rules run, and which must be evaluated."""

    modes: ModesOption = None
    validator: ValidatorOption = None
    validator_path: ValidatorPathOption = None
    allow_unevaluated: UnevaluatedOption = False


@dataclass(frozen=True, slots=True)
class RemovalAfter:
    """What becomes of intraday rows of dates that have passed."""

    delete_after: DeleteAfterOption = False
    grace: GraceOption = GRACE_S


def register(app: typer.Typer) -> None:
    lines = (
        "validate Nyc13.Flight --dates 2013-07-04",
        "validate Nyc13.Flight --dates 2013-07-01..2013-07-31 --delete-after",
        "validate Nyc13.Flight --dates 2013-07-04 --validator checks:delays --validator-path ./checks",
    )
    bad_data, usage = "a rule failed or was not evaluated", "wrong options, no such table or dates"
    app.command(epilog=help_end(*lines, done="every date passed", bad_data=bad_data, usage=usage))(
        with_groups(validate)
    )


def validate(
    ctx: typer.Context,
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
    cli: CliContext = ctx.obj
    choice, chosen = parse_choice(dates), _modes(options.modes)
    place = TablePlace(Fs(), cli.database(), TableName.parse(name))
    dry_run = dry_run or (is_copy(place.layout.root) and not after.delete_after)
    load_deployed(place)
    if options.validator_path and not options.validator:
        raise SettingsError("--validator-path has no validator", expected="--validator MODULE:FUNCTION", found="none")
    validators = load_validators(options.validator or [], options.validator_path or [], place.layout.root)
    merged = [value for value in all_values(place) if newest(place, value)]
    values = choice.pick(merged, time.time(), lambda: intraday_dates(newest_states(place)), "merged ")
    rules = RuleChoice(chosen, validators, lambda error: traceback.print_exception(error) if cli.verbose else None)
    code, wrong, pins, states = EXIT_DONE, 0, Pins(place), States(place)
    for value in values:
        now_ms = int(time.time() * 1000)
        try:
            validation = validate_date(
                place, value, pins=pins, tolerant=options.allow_unevaluated, time_ms=now_ms, choice=rules
            )
            if not dry_run:
                store_validation(place, validation)
            show_validation(cli, validation)
            if not validation.passed:
                code, wrong = code or EXIT_BAD_DATA, wrong + 1
            elif after.delete_after:
                proof = prove(
                    place,
                    value,
                    tolerant=options.allow_unevaluated,
                    dry_run=dry_run,
                    time_ms=now_ms,
                    pins=pins,
                    on_progress=cli.note,
                    validation=validation,
                )
                removed = truncate_and_delete(
                    place,
                    value,
                    proof=proof,
                    clock=time.time,
                    grace_s=after.grace,
                    dry_run=dry_run,
                    pins=pins,
                    states=states,
                )
                _show_removed(cli, name, value, removed, dry_run=dry_run)
        except (SparkhavenError, OSError) as error:  # the other dates are validated all the same
            failed = report(cli, as_ours(error), table=name, date=value)
            code, wrong = code or failed, wrong + 1
    cli.note(f"{len(values):,} dates validated, {wrong:,} failed" + (" (dry run: nothing stored)" if dry_run else ""))
    exit_with(code)


def _modes(texts: list[str] | None) -> tuple[str, ...]:
    chosen = dict.fromkeys(part.strip() for text in texts or () for part in text.split(","))
    for mode in chosen:
        if mode not in MODES:
            expected = ", ".join(MODES)
            raise SettingsError(
                "--modes has no such mode", expected=expected, found=repr(mode), hint=meant(mode, MODES)
            )
    return tuple(chosen)


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
        f"{len(locations):,} locations {part}, {sum(rows for *_, rows in locations):,} rows"
        for part, locations in parts.items()
        if locations
    ]
    if removed.waiting:
        words.append(f"{len(removed.waiting):,} sources wait for readers: {removed.reason}")
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
    if rule.rule in DIGEST_RULES and name in ("measured", "lower", "upper") and not cli.verbose:
        return None  # 32 digits; -v and --json have them
    return "not evaluated" if name == "passed" and cell is None else cell
