"""What the DAG files share: defaults of tasks, the failure callback, assets, the parameters of a run. With Airflow."""

from __future__ import annotations

import logging
from datetime import date, datetime, timedelta
from typing import Any

from airflow.sdk import Asset, BaseOperator, Context, CronDataIntervalTimetable, Param

from . import commands
from .alerts import alert, send
from .commands import Program
from .configuration import Configuration, Schedule, TableNight, load
from .markets import chosen_dates
from .operators import answer
from .readiness import late_dates

log = logging.getLogger(__name__)
BACK_OFF = 2.0  # each wait is that many times the one before
QUICK = timedelta(minutes=10)  # of a task that only looks: a source that does not answer holds no slot for longer
RETRY_ONCE: dict[str, Any] = {"retries": 1, "retry_delay": timedelta(seconds=30), "execution_timeout": QUICK}


def timetable(schedule: Schedule) -> CronDataIntervalTimetable:
    """A run belongs to the interval between two times of the cron expression, and starts at its end."""
    return CronDataIntervalTimetable(schedule.cron, timezone=schedule.zone)


def defaults(configuration: Configuration) -> dict[str, Any]:
    """Arguments of every task: owner, retries with back-off, time-out, the alert."""
    retries = configuration.retries
    return {
        "owner": configuration.owner,
        "retries": retries.times,
        "retry_delay": retries.delay,
        "retry_exponential_backoff": BACK_OFF,
        "max_retry_delay": retries.longest,
        "execution_timeout": configuration.timeout,
        "on_failure_callback": alert_of_failure,
    }


def single_runs(configuration: Configuration, schedule: Schedule, **of_tasks: Any) -> dict[str, Any]:
    """Arguments of a DAG that looks at the present: one run at a time, none for intervals that have passed.

    ``of_tasks``: where its tasks differ from ``defaults``.
    """
    return {
        "schedule": timetable(schedule),
        "start_date": configuration.nights.start_at,
        "catchup": False,
        "max_active_runs": 1,
        "default_args": defaults(configuration) | of_tasks,
    }


def alert_of_failure(context: Context) -> None:
    """The failure callback: the error's own words in the log, and to the command that the configuration names."""
    ti = context["ti"]
    words = str(context.get("exception") or "no reason is known")
    task = ti.task_id if ti.map_index < 0 else f"{ti.task_id}[{ti.map_index}]"
    text = alert(ti.dag_id, ti.run_id, task, ti.try_number, str(ti.task.owner), words)
    log.error("%s", text)
    send(load().alert, text, log.error)


def run_parameters(tables: list[str]) -> dict[str, Param]:
    """What a person may choose for a run of ``end_of_day``."""
    return {
        "date": Param(
            None,
            type=["null", "string"],
            pattern=r"^\d{4}-\d{2}-\d{2}(\.\.\d{4}-\d{2}-\d{2})?$",
            description="A date, or A..B of which the sessions. Default: the dates that closed in the data interval.",
        ),
        "tables": Param(
            None,
            type=["null", "array"],
            items={"type": "string", "enum": tables},
            description="Only these tables. Default: all.",
        ),
        "force": Param(False, type="boolean", description="Merge merged dates again, as a new generation."),
        "dry_run": Param(False, type="boolean", description="Say what would be merged, and change nothing."),
    }


def dates_of_run(night: TableNight, context: Context, program: Program) -> list[dict[str, Any]]:
    """The dates of one table that this run is for, as the table writes them; none if the run is for other tables.

    ``late``: the date was merged before, and rows have come since. Runs whose dates a person chose have no such.
    """
    params, run = context["params"], context["dag_run"]
    if params["tables"] is not None and night.name not in params["tables"]:
        return []
    now: datetime = run.logical_date or run.run_after
    days = chosen_dates(night.market, params["date"], run.data_interval_start, run.data_interval_end, now)
    for day in days:
        if why := night.market.why_closed(day):
            log.warning("%s: %s", night.name, why)
    values = [night.value(day) for day in days]
    late: list[str] = []
    if night.options.late is not None and params["date"] is None:
        since = (now - night.options.late).date()
        late = late_dates(
            answer(program, commands.status(night.name)), values, lambda value: _since(night, value, since)
        )
    return [{"value": value, "late": value in late} for value in (*late, *values)]


def _since(night: TableNight, value: str, first: date) -> bool:
    """Whether a value of the table is a date from ``first`` on."""
    try:
        return night.day(value) >= first
    except ValueError:
        return False


def asset_of(table: str) -> Asset:
    """The history of a table; its partitions are dates."""
    namespace, _, name = table.partition(".")
    return Asset(name=table, uri=f"sparkhaven://{namespace}/{name}", group="sparkhaven")


class PublishOperator(BaseOperator):
    """Tells DAGs that wait for the table that a date is in history: an asset event with the date as its partition."""

    template_fields = ("value",)

    def __init__(self, *, table: str, merge: str, value: Any, **kwargs: Any) -> None:
        self.asset = asset_of(table)
        super().__init__(outlets=[self.asset], **kwargs)
        self.merge, self.value = merge, value

    def execute(self, context: Context) -> dict[str, Any]:
        """One event for one date."""
        ti = context["ti"]
        merged = ti.xcom_pull(task_ids=self.merge, map_indexes=ti.map_index) or {}
        event = context["outlet_events"][self.asset]
        event.add_partitions(self.value)
        extra = {"date": self.value, **{key: merged.get(key) for key in ("outcome", "rows_out", "generation")}}
        event.extra = extra
        return extra
