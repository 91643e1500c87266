"""The dates of a table: rows in intraday and in history, how far each has come, and what is left to do.

That is: unmerged, unvalidated, untruncated, interrupted merges, replaced files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sparkhaven.store.errors import FormatError
from sparkhaven.store.merges.history import load_history
from sparkhaven.store.merges.merge_records import MergeRecord, all_values, merged_rows, newest
from sparkhaven.store.merges.merge_run import MergePhase
from sparkhaven.store.merges.validations import RuleResult, Validation, binding, load_validation
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.model import ValidatorRule
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.publish.publish_phase import Replaced, replaced_by

TIERS = ("intraday", "merged", "validated", "truncated")
"""How far rows of a date have come, from the first step to the last."""


class DateValidation(StrEnum):
    """How the validation of a date's newest merge stands. STALE: of another merge, or by other rules."""

    PASSED = "passed"
    FAILED = "failed"
    STALE = "stale"
    DAMAGED = "damaged"
    MISSING = "missing"


@dataclass(slots=True)
class SourceRows:
    """Rows of one internal partition of a date: not in history, in history, and of those still in intraday too."""

    unmerged: int = 0
    merged: int = 0
    untruncated: int = 0


@dataclass(frozen=True, slots=True)
class DateStatus:
    """One date. ``merged`` and ``unmerged`` are rows; ``generation`` is 0 before the first merge.

    ``validation`` is None without a merge. ``untruncated``: merged rows that are still in intraday. ``unfinished``: the
    last phase of a merge that runs or was interrupted. ``sources``: rows by internal partition; a merge whose own input
    was history has them as the merges before it took them in.
    """

    value: str
    merged: int
    unmerged: int
    generation: int
    validation: DateValidation | None
    untruncated: int
    unfinished: MergePhase | None
    replaced: tuple[Replaced, ...] = ()
    sources: Mapping[str, SourceRows] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        left = self.unmerged or self.untruncated or self.unfinished or self.replaced
        return not left and self.validation is DateValidation.PASSED

    def tier(self, source: SourceRows) -> str:
        """How far the rows of a source have come: one of ``TIERS``."""
        if source.unmerged:
            return "intraday"
        if not source.untruncated:
            return "truncated"
        return "validated" if self.validation is DateValidation.PASSED else "merged"


@dataclass(frozen=True, slots=True)
class Cell:
    """Rows of one source, which is an internal partition, on one date; ``tier`` is one of ``TIERS``."""

    date: str
    source: str
    rows: int
    tier: str


def cells(dates: Iterable[DateStatus]) -> Iterator[Cell]:
    """Dates by sources that have rows."""
    for date in dates:
        for source, rows in sorted(date.sources.items()):
            if rows.merged or rows.unmerged:
                yield Cell(date.value, source, rows.merged + rows.unmerged, date.tier(rows))


def table_status(place: TablePlace, now_s: float) -> list[DateStatus]:
    """Every date that has rows in intraday or was ever merged; ``now_s`` is seconds since the epoch."""
    pins, schema = Pins(place), load_deployed(place)
    statuses = []
    for value in sorted({*pins.values(), *all_values(place)}):
        history = load_history(place, value)
        record, last, complete = history.current, history.last, history.complete
        taken = merged_rows(record)
        sources = {internal: SourceRows(unmerged=rows) for internal, rows in pins.waiting_by_source(value).items()}
        for (_, internal, _), rows in taken.items():
            sources.setdefault(internal, SourceRows()).merged += rows
        for stream, location in pins.locations(value, complete):
            merged = min(taken.get((stream, location.key.internal, location.since), 0), location.rows)
            source = sources.setdefault(location.key.internal, SourceRows())
            source.untruncated += merged
            source.unmerged += location.rows - merged
        statuses.append(
            DateStatus(
                value,
                record.rows if record else 0,
                sum(source.unmerged for source in sources.values()),
                record.generation if record else 0,
                _validation(place, record, schema.rules) if record else None,
                sum(source.untruncated for source in sources.values()),
                last.phase if last is not None and last.phase is not MergePhase.CLEAN else None,
                tuple(replaced_by(place, history, now_s)),
                sources,
            )
        )
    return statuses


def _validation(place: TablePlace, record: MergeRecord, rules: Sequence[ValidatorRule]) -> DateValidation:
    if record.emptied:  # there is nothing to validate
        return DateValidation.PASSED
    try:
        validation = load_validation(place, record)
    except FormatError:
        return DateValidation.DAMAGED
    if validation is None:
        return DateValidation.MISSING
    same = validation.binding == binding(record, rules, validation.modes)
    if not same or (validation.modes and not validation.failed):  # of some modes only: truncate validates again
        return DateValidation.STALE
    return DateValidation.PASSED if validation.passed else DateValidation.FAILED


def failed_rules(place: TablePlace, dates: Iterable[DateStatus], most: int) -> Iterator[tuple[Validation, RuleResult]]:
    """Rules that have failed, or were not evaluated though they must be, of the newest ``most`` dates with such."""
    for date in [status for status in dates if status.validation is DateValidation.FAILED][-most:]:
        record = newest(place, date.value)
        validation = load_validation(place, record) if record else None
        if validation is not None:
            rules = (*validation.failed, *(() if validation.tolerant else validation.unevaluated))
            yield from ((validation, rule) for rule in rules)
