"""The DAG ``end_of_day``: each table's dates that have closed go from intraday to history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow.sdk import DAG, TaskGroup, TriggerRule, get_current_context, task, task_group
from airflow.sdk.exceptions import AirflowFailException

from nights import commands
from nights.after_nights import ExpireOperator, SnapshotOperator
from nights.configuration import TableNight, load
from nights.dag_parts import QUICK, PublishOperator, dates_of_run, defaults, run_parameters, timetable
from nights.operators import CommandOperator, RemovalOperator, ValidateOperator, job
from nights.report import Night, markdown
from nights.report import nights as nights_of
from nights.sensors import GraceSensor, NightSensor

DOC = """
### Intraday to history

For each table, and each date of it that closed in the data interval of the run, or that has late rows:

| step | does |
|---|---|
| `wait` | until the market has closed, the rows are there, nothing waits at the sources, `doctor` finds nothing wrong |
| `merge` | the date into sorted, grouped history, through spark-submit or in a process |
| `validate` | counts, digests and the rules of the schema. **A failure ends the night here: nothing is truncated** |
| `publish` | an event of the asset of the table, with the date as its partition |
| `truncate` | the intraday rows go, with the proof that history has them |
| `grace`, `delete` | their files go, when no reader can be using them |
| `expire`, `snapshot` | once a table, if the configuration asks for it: old dates go, the table is copied |

`report` lists the nights and fails if one of them did. Exit codes 1 and 2 of a command fail its task at once, 3 is
tried again with back-off. Every step may be killed and run again. A finished night run again changes nothing.

Parameters of a run: `date` (or `A..B`), `tables`, `force`, `dry_run`. For a range of past dates: a backfill.
"""
REPORTED = ("merge", "validate", "truncate")
configuration = load()


def steps(night: TableNight, value: Any, late: Any) -> None:
    """The tasks of one date of a table."""
    program, name, grace_s = configuration.program, night.name, night.grace.total_seconds()
    usual: dict[str, Any] = {"owner": night.owner, "map_index_template": "{{ task.value }}"}
    light = {**usual, "value": value, "execution_timeout": QUICK}
    one_at_a_time = {**usual, "value": value, "execution_timeout": night.timeout, "max_active_tis_per_dag": 1}
    heavy = {**one_at_a_time, "pool": configuration.pool}  # these lock the table, or read all of a date

    def merge_words(date: str, params: Any) -> list[str]:
        local, options = night.local or configuration.spark is None, night.options.merge
        return commands.merge(
            name, date, force=params["force"], dry_run=params["dry_run"], local=local, options=options
        )

    def delete_words(date: str, params: Any) -> list[str]:
        return commands.delete(name, date, grace_s=grace_s)

    wait = NightSensor(task_id="wait", night=night, program=program, **light)
    merge = job(configuration, "merge_dates", merge_words, local=night.local, task_id="merge", late=late, **heavy)
    validate = ValidateOperator(
        task_id="validate",
        words=lambda date, params: commands.validate(name, date),
        program=program,
        merge=merge.task_id,
        **heavy,
    )
    publish = PublishOperator(task_id="publish", table=name, merge=merge.task_id, **light)
    removal: dict[str, Any] = {"program": program, "table": name, **one_at_a_time}
    truncate = RemovalOperator(task_id="truncate", words=lambda date, params: commands.truncate(name, date), **removal)
    grace = GraceSensor(task_id="grace", after=truncate.task_id, grace=night.grace, **light)
    delete = RemovalOperator(task_id="delete", words=delete_words, **removal)
    wait >> merge >> validate >> [publish, truncate]
    truncate >> grace >> delete


def group_of(night: TableNight) -> TaskGroup:
    """All tasks of one table; its dates are known when the run begins."""
    with TaskGroup(night.label, tooltip=f"{night.name}, market {night.market.name}") as group:

        @task(owner=night.owner)
        def dates() -> list[dict[str, Any]]:
            return dates_of_run(night, get_current_context(), configuration.program)

        @task_group(group_id="night")
        def one_night(value: Any, late: Any) -> None:
            steps(night, value, late)

        last: Any = one_night.expand_kwargs(dates())
        for operator in after(night):
            last >> operator
            last = operator
    return group


def after(night: TableNight) -> Iterator[CommandOperator]:
    """The tasks of a table after its nights, if none of them has failed."""
    options = night.options
    usual: dict[str, Any] = {
        "owner": night.owner,
        "program": configuration.program,
        "table": night.name,
        "execution_timeout": night.timeout,
        "trigger_rule": TriggerRule.NONE_FAILED,
        "max_active_tis_per_dag": 1,
    }
    if options.retention is not None:
        words = commands.expire(night.name, keep_s=options.retention.total_seconds(), zone=str(night.market.zone))
        yield ExpireOperator(task_id="expire", words=lambda value, params: words, **usual)
    if options.snapshot is not None:
        yield SnapshotOperator(
            task_id="snapshot", directory=options.snapshot, keep=options.snapshots, pool=configuration.pool, **usual
        )


def found_nights() -> list[Night]:
    """Every night of this run with the states and results of its steps."""
    ti = get_current_context()["ti"]
    states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[ti.run_id]).get(ti.run_id, {})
    nights: list[Night] = []
    for night in configuration.tables.values():
        dates = [date["value"] for date in ti.xcom_pull(task_ids=f"{night.label}.dates") or []]
        results = {
            step: [ti.xcom_pull(task_ids=f"{night.label}.night.{step}", map_indexes=n) for n in range(len(dates))]
            for step in REPORTED
        }
        nights += nights_of(night.name, night.label, dates, states, results)
    return nights


@task(trigger_rule=TriggerRule.ALL_DONE, retries=0)
def report() -> str:
    """Lists the nights, also in the directory that the configuration names; fails if a night did."""
    run = get_current_context()["dag_run"].run_id
    nights = found_nights()
    text = markdown(run, nights)
    print(text)
    directory = configuration.nights.reports
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{run.replace(':', '')}.md").write_text(text, encoding="utf-8")
    if bad := [night for night in nights if night.bad]:
        failures = ", ".join(f"{night.table} {night.date} at {night.failed}" for night in bad)
        raise AirflowFailException(f"{len(bad)} of {len(nights)} nights failed: {failures}")
    return text


with DAG(
    dag_id="end_of_day",
    schedule=timetable(configuration.nights.schedule),
    start_date=configuration.nights.start_at,
    catchup=configuration.nights.catch_up,
    max_active_runs=configuration.nights.parallel_runs,
    default_args=defaults(configuration),
    params=run_parameters(sorted(configuration.tables)),
    tags=["sparkhaven", "history", *configuration.tags],
    doc_md=DOC,
) as dag:
    groups = [group_of(night) for night in configuration.tables.values()]
    groups >> report()
