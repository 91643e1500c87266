"""Merged dates, validated one by one, and their intraday rows removed in two phases, each date with its own proof."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, TypedDict

from sparkhaven.jobs.date_choice import DateChoice, intraday_dates
from sparkhaven.jobs.settings.keywords import Names, as_names
from sparkhaven.store.epochs.reading.stream_state import newest_states
from sparkhaven.store.errors import SettingsError, SparkhavenError, meant
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.io.read_only_roots import is_copy
from sparkhaven.store.merges.merge_records import all_values, newest
from sparkhaven.store.merges.validations import Validation, store_validation
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.selection import directory_of
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.schema.document.validator_rules import MODES
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.publish.publish_phase import GRACE_S
from sparkhaven.writers.removal import row_removal
from sparkhaven.writers.removal.history_removal import RemovedDate, truncate_and_delete
from sparkhaven.writers.removal.removal_proof import States, prove
from sparkhaven.writers.removal.row_removal import Removed
from sparkhaven.writers.validation.date_validation import RuleChoice, validate_date
from sparkhaven.writers.validation.validators import load_validators

Phase = Literal["truncate", "delete"]


class ValidationKeywords(TypedDict, total=False):
    """Which rules run, as the options of ``sparkhaven validate``. ``delete_after``: then truncate and delete the
    intraday rows of dates that have passed; ``grace``: seconds in between."""

    modes: Names
    validator: Names
    validator_path: str | Path | Sequence[str | Path]
    allow_unevaluated: bool
    delete_after: bool
    grace: float


@dataclass(frozen=True, slots=True)
class ValidationRun:
    """Which rules run, and what follows. ``grace``: seconds between truncate and delete.

    ``on_error`` is told what a validator raises, ``note`` how it goes on.
    """

    modes: Sequence[str] = ()
    validators: Sequence[str] = ()
    validator_path: Sequence[Path] = ()
    allow_unevaluated: bool = False
    delete_after: bool = False
    grace: float = GRACE_S
    dry_run: bool = False
    note: Callable[[str], None] = field(default=lambda _: None)
    on_error: Callable[[BaseException], None] = field(default=lambda _: None)

    @classmethod
    def of(cls, given: ValidationKeywords, *, dry_run: bool, note: Callable[[str], None]) -> ValidationRun:
        """What the words ask for."""
        paths = given.get("validator_path", ())
        return cls(
            as_names(given.get("modes")) or (),
            as_names(given.get("validator")) or (),
            [local_path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)],
            given.get("allow_unevaluated", False),
            given.get("delete_after", False),
            given.get("grace", GRACE_S),
            dry_run,
            note,
        )


@dataclass(frozen=True, slots=True)
class ValidatedDate:
    """A date: its validation, what was removed after it, and the error that ended it, if one did."""

    date: str
    validation: Validation | None = None
    removed: RemovedDate | None = None
    error: SparkhavenError | OSError | None = None


@dataclass(frozen=True, slots=True)
class IntradayRemoval:
    """Which locations go. ``grace``: seconds between the phases, in which readers may still use the files."""

    choice: DateChoice
    source: str | None = None
    allow_unevaluated: bool = False
    dry_run: bool = False
    grace: float = GRACE_S


@dataclass(frozen=True, slots=True)
class DateRemoval:
    """What a phase did with a date, or why it failed: then nothing of it was removed."""

    date: str
    removed: Removed | None = None
    error: SparkhavenError | OSError | None = None


def validate_dates(place: TablePlace, choice: DateChoice, run: ValidationRun) -> Iterator[ValidatedDate]:
    """Validates merged dates, and stores the results, but for a dry run and in a copy of a database.

    An error of one date does not stop the others. Before any: SettingsError for a mode or validator that there is not,
    TableNotFoundError where no merged date is chosen.
    """
    load_deployed(place)
    modes = _modes(run.modes)
    if run.validator_path and not run.validators:
        raise SettingsError("--validator-path has no validator", expected="--validator MODULE:FUNCTION", found="none")
    validators = load_validators(list(run.validators), list(run.validator_path), place.layout.root)
    merged = [value for value in all_values(place) if newest(place, value)]
    values = choice.pick(merged, time.time(), lambda: intraday_dates(newest_states(place)), "merged ")
    return _validated(place, values, RuleChoice(modes, validators, run.on_error), run)


def remove_intraday(
    place: TablePlace, phase: Phase, asked: IntradayRemoval, note: Callable[[str], None]
) -> Iterator[DateRemoval]:
    """Removes dates, each with a proof of its own: an error of one does not stop the others.

    Before any date: TableNotFoundError, SettingsError for a date or source that the table does not have.
    """
    load_deployed(place)
    streams = newest_states(place)
    source = asked.source
    if source is not None:
        sources = {key.internal for state in streams for key in state.locations}
        source = directory_of(place.table, source, sources.union(place.fs.names(place.intraday)))
    values = asked.choice.pick(intraday_dates(streams), time.time(), lambda: all_values(place))
    return _of_dates(place, phase, asked, source, values, note)


def _validated(
    place: TablePlace, values: Sequence[str], rules: RuleChoice, run: ValidationRun
) -> Iterator[ValidatedDate]:
    dry_run, tolerant = stores_nothing(place, run), run.allow_unevaluated
    pins, states = Pins(place), States(place)
    for value in values:
        now_ms = int(time.time() * 1000)
        validation = removed = None
        try:
            validation = validate_date(place, value, pins=pins, tolerant=tolerant, time_ms=now_ms, choice=rules)
            if not dry_run:
                store_validation(place, validation)
            if validation.passed and run.delete_after:
                proof = prove(
                    place,
                    value,
                    tolerant=tolerant,
                    dry_run=dry_run,
                    time_ms=now_ms,
                    pins=pins,
                    on_progress=run.note,
                    validation=validation,
                )
                removed = truncate_and_delete(
                    states, proof=proof, clock=time.time, grace_s=run.grace, dry_run=dry_run, pins=pins
                )
        except (SparkhavenError, OSError) as error:
            yield ValidatedDate(value, validation, removed, error)
        else:
            yield ValidatedDate(value, validation, removed)


def _of_dates(
    place: TablePlace,
    phase: Phase,
    asked: IntradayRemoval,
    source: str | None,
    values: list[str],
    note: Callable[[str], None],
) -> Iterator[DateRemoval]:
    run = row_removal.truncate if phase == "truncate" else partial(row_removal.delete, grace_s=asked.grace)
    states, pins, dry_run = States(place), Pins(place), asked.dry_run
    for value in values:
        try:
            proof = prove(
                place,
                value,
                tolerant=asked.allow_unevaluated,
                dry_run=dry_run,
                time_ms=int(time.time() * 1000),
                pins=pins,
                on_progress=note,
            )
            done = run(states, proof=proof, clock=time.time, source=source, dry_run=dry_run)
        except (SparkhavenError, OSError) as error:
            yield DateRemoval(value, error=error)
        else:
            yield DateRemoval(value, done)


def stores_nothing(place: TablePlace, run: ValidationRun) -> bool:
    """Whether it is a dry run, as each is in a snapshot or a mirror."""
    return run.dry_run or (is_copy(place.layout.root) and not run.delete_after)


def _modes(texts: Sequence[str]) -> tuple[str, ...]:
    chosen = dict.fromkeys(part.strip() for text in texts for part in text.split(","))
    for mode in chosen:
        if mode not in MODES:
            expected = ", ".join(MODES)
            raise SettingsError(
                "--modes has no such mode", expected=expected, found=repr(mode), hint=meant(mode, MODES)
            )
    return tuple(chosen)
