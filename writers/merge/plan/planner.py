"""What is done with a date under the table's lock: by default its rows are merged from intraday into history."""

from __future__ import annotations

from typing import Protocol

from sparkhaven.store.merges.history import DateHistory
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.plan.date_plan import PlannedMerge, plan_merge
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.merge.plan.partition_choice import Turns


class Planner(Protocol):
    """What ``merge_dates`` does with a date."""

    def plan(
        self, place: TablePlace, history: DateHistory, options: MergeOptions, pins: Pins, turns: Turns, *, dry_run: bool
    ) -> PlannedMerge:
        """The plan for a date after its history. SparkhavenError: there is none."""

    def ends_with(self, record: MergeRecord) -> bool:
        """Whether nothing is left to do for a date once this merge, which was killed, is published."""


class MergePlanner:
    """From intraday to history, as ``merge`` does."""

    def plan(
        self, place: TablePlace, history: DateHistory, options: MergeOptions, pins: Pins, turns: Turns, *, dry_run: bool
    ) -> PlannedMerge:
        return plan_merge(place, history, options, pins, turns, dry_run=dry_run)

    def ends_with(self, record: MergeRecord) -> bool:
        return True
