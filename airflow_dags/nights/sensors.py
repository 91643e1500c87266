"""Sensors that give their slot back between two looks: a date is ready, a grace period is over. With Airflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue
from airflow.sdk.exceptions import AirflowSensorTimeout, AirflowSkipException

from . import commands
from .commands import Program
from .configuration import TableNight
from .operators import conclude
from .readiness import Readiness, closed, complete, healthy
from .results import Ended, Next, Result, what_next, words_of
from .running import Command


class RescheduledSensor(BaseSensorOperator):
    """Rescheduled until ``look`` is content; a timeout says what was missing at the last look."""

    template_fields: Sequence[str] = ("value",)

    def __init__(self, *, value: Any, **kwargs: Any) -> None:
        super().__init__(mode="reschedule", **kwargs)
        self.value, self.why = value, ""

    def look(self, context: Context) -> tuple[Readiness, Mapping[str, Any]]:
        """What there is, and the result of the task."""
        raise NotImplementedError

    def poke(self, context: Context) -> bool | PokeReturnValue:
        """One look."""
        readiness, result = self.look(context)
        self.why = readiness.why
        self.log.info("%s: %s", "ready" if readiness.ready else "not yet", readiness.why)
        return PokeReturnValue(readiness.ready, dict(result)) if readiness.ready else False

    def execute(self, context: Context) -> Any:
        """Looks until ``timeout``."""
        try:
            return super().execute(context)
        except AirflowSensorTimeout as error:
            raise AirflowSensorTimeout(f"{self.value}: {self.why}, after {self.timeout:g} s") from error


class NightSensor(RescheduledSensor):
    """A date of a table: its market has closed, its rows are there, nothing waits, nothing is wrong. No Spark."""

    def __init__(self, *, night: TableNight, program: Program, **kwargs: Any) -> None:
        super().__init__(poke_interval=night.poll, timeout=night.patience, **kwargs)
        self.night, self.program = night, program

    def look(self, context: Context) -> tuple[Readiness, Mapping[str, Any]]:
        """The cheapest question first: the clock, then ``stats``, then ``doctor``."""
        night = self.night
        readiness = closed(night.market.close_of(night.day(self.value)), night.settle, datetime.now(UTC))
        if not readiness.ready:
            return readiness, {}
        answer = self._ask(commands.stats(night.name, night.streams))
        if answer is None:
            return Readiness(False, self.why), {}
        readiness = complete(answer, self.value, streams=night.stream_names, min_rows=night.min_rows)
        if readiness.empty and night.empty == "skip":
            raise AirflowSkipException(f"{night.name} {self.value}: {readiness.why}, which the table allows")
        if not readiness.ready:
            return readiness, {}
        ended = self._run(commands.doctor(night.name))
        findings = [finding for result in ended.results for finding in result.get("findings") or ()]
        well = healthy(findings)
        return (readiness if well.ready else well), {"intraday": readiness.intraday, "history": readiness.history}

    def _ask(self, words: list[str]) -> Result | None:
        """The answer of a command; None where it is worth asking again."""
        ended = self._run(words)
        if what_next(ended) is Next.RETRY:
            self.why = words_of(ended)
            return None
        return conclude(ended, self.program.by_hand(words))

    def _run(self, words: list[str]) -> Ended:
        return Command(self.program.line(words)).run(lambda line: self.log.debug("%s", line))


class GraceSensor(RescheduledSensor):
    """The grace period since a truncate, while readers may still hold the files. ``after``: the task that truncated."""

    def __init__(self, *, after: str, grace: timedelta, **kwargs: Any) -> None:
        interval = max(1.0, min(60.0, grace.total_seconds()))
        super().__init__(poke_interval=interval, timeout=grace + timedelta(hours=1), **kwargs)
        self.after, self.grace = after, grace

    def look(self, context: Context) -> tuple[Readiness, Mapping[str, Any]]:
        """The clock of this machine against the end of the truncate."""
        ti = context["ti"]
        ended = ti.xcom_pull(task_ids=self.after, map_indexes=ti.map_index, key="ended_s")
        over = float(ended or 0.0) + self.grace.total_seconds()
        left = over - datetime.now(UTC).timestamp()
        return Readiness(left <= 0, f"{max(0.0, left):.0f} s of the grace period are left"), {}
