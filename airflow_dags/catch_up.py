"""The DAG ``catch_up``: streams whose files come once a day take what is there and end."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG

from nights import commands
from nights.configuration import load
from nights.dag_parts import single_runs
from nights.operators import job

DOC = """
### Feeds that come once a day

Each stream of `[catch_up]` runs with `--once`: it takes all available input exactly once and ends. Run it before
`end_of_day`, which waits until nothing is left at the sources of its tables. A run that finds nothing is done at once.
"""
configuration = load()


def words_of(stream: str) -> Any:
    """The command line of one stream."""
    return lambda value, params: commands.ingest(configuration.feeds[stream])


with DAG(
    dag_id="catch_up",
    **single_runs(configuration, configuration.catch_up),
    tags=["sparkhaven", "ingest", *configuration.tags],
    doc_md=DOC,
) as dag:
    for name in configuration.feeds:
        job(configuration, "ingest_stream", words_of(name), task_id=name, pool=configuration.pool)
