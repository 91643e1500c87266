"""Merged intraday rows, removed in two phases and with proof, date by date."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from sparkhaven.jobs.date_choice import DateChoice, intraday_dates
from sparkhaven.store.epochs.reading.stream_state import newest_states
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.selection import directory_of
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.publish.publish_phase import GRACE_S
from sparkhaven.writers.removal import row_removal
from sparkhaven.writers.removal.removal_proof import prove
from sparkhaven.writers.removal.row_removal import Removed
from sparkhaven.writers.removal.state_cache import States

Phase = Literal["truncate", "delete"]


@dataclass(frozen=True, slots=True)
class IntradayRemoval:
    """Which locations go. ``grace``: seconds between the phases, in which readers may still use the files."""

    choice: DateChoice
    source: str | None = None
    allow_unevaluated: bool = False
    dry_run: bool = False
    grace: float = GRACE_S


@dataclass(frozen=True, slots=True)
class RemovedDate:
    """What a phase did with a date, or why it failed: then nothing of it was removed."""

    date: str
    removed: Removed | None = None
    error: SparkhavenError | OSError | None = None


def remove_intraday(
    place: TablePlace, phase: Phase, asked: IntradayRemoval, note: Callable[[str], None]
) -> Iterator[RemovedDate]:
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
    return _removed(place, phase, asked, source, values, note)


def _removed(
    place: TablePlace,
    phase: Phase,
    asked: IntradayRemoval,
    source: str | None,
    values: list[str],
    note: Callable[[str], None],
) -> Iterator[RemovedDate]:
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
            done = run(place, value, proof=proof, clock=time.time, source=source, dry_run=dry_run, states=states)
        except (SparkhavenError, OSError) as error:
            yield RemovedDate(value, error=error)
        else:
            yield RemovedDate(value, done)
