"""The DAG ``scrub``: reads every committed byte again, some tables each night."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, get_current_context, task, task_group

from nights import commands
from nights.configuration import load
from nights.dag_parts import single_runs
from nights.health import slice_of
from nights.operators import VerifyOperator

DOC = """
### Damage is found before somebody reads it

`verify --deep` compares every committed byte with its checksum. Each night has a slice of the tables, and each table
its turn once in `nights` nights of the configuration. Damage that a second look finds as well fails the task, with the
findings and what to do about it.
One table at a time: it reads as fast as the disk gives.
"""
configuration = load()

with DAG(
    dag_id="scrub",
    **single_runs(configuration, configuration.scrub),
    tags=["sparkhaven", "damage", *configuration.tags],
    doc_md=DOC,
) as dag:

    @task
    def tonight() -> list[str]:
        """The tables whose turn it is."""
        run = get_current_context()["dag_run"]
        day = (run.data_interval_end or run.run_after).date()
        return slice_of(list(configuration.tables), configuration.scrub_nights, day.toordinal())

    @task_group(group_id="table")
    def one_table(value: Any) -> None:
        """The check of one table."""
        VerifyOperator(
            task_id="verify",
            value=value,
            words=lambda table, params: commands.verify(table),
            program=configuration.program,
            pool=configuration.pool,
            max_active_tis_per_dagrun=1,
            map_index_template="{{ task.value }}",
        )

    one_table.expand(value=tonight())
