"""The DAG ``ingest_health``: what waits at the sources, how old the newest epochs are, how many rows were rejected."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException

from nights import commands
from nights.configuration import TableNight, load
from nights.dag_parts import RETRY_ONCE, single_runs
from nights.health import breaches, measured
from nights.operators import answer

DOC = """
### Is the ingest well?

For each table one task, which fails, and alerts, where a limit of the configuration is passed:

| limit | of |
|---|---|
| `lag` | messages or files that wait at the source. Needs the stream file in `streams` |
| `age` | the newest epoch, while the market is open |
| `rejected` | rows that were rejected within `window` |

No Spark is started. What was measured is the return value of the task.
"""
configuration = load()


def check(night: TableNight) -> list[dict[str, Any]]:
    """What was measured of one table; AirflowFailException with a sentence for everything beyond its limit."""
    now = datetime.now(UTC)
    stats = answer(configuration.program, commands.stats(night.name, night.streams))
    names = [str(line["stream"]) for line in stats["streams"]]
    epochs = {name: answer(configuration.program, commands.epochs(night.name, name)) for name in names}
    measures = measured(stats, epochs, night.limits.window, now)
    sentences = breaches(night.name, measures, night.limits, market_open=night.market.is_open(now))
    if sentences:
        by_hand = configuration.program.by_hand(commands.doctor(night.name))
        raise AirflowFailException("\n".join([*sentences, f"by hand: {by_hand}"]))
    return [measure.to_json() for measure in measures]


def task_of(night: TableNight) -> None:
    """The task of one table."""

    @task(task_id=night.label, owner=night.owner)
    def limits() -> list[dict[str, Any]]:
        return check(night)

    limits()


with DAG(
    dag_id="ingest_health",
    **single_runs(configuration, configuration.health, **RETRY_ONCE),
    tags=["sparkhaven", "ingest", *configuration.tags],
    doc_md=DOC,
) as dag:
    for night in configuration.tables.values():
        task_of(night)
