"""Whether a run is worth the start of Spark, unless the command says it.

An ingest of all available input is by how much waits, a merge by the rows that it has to write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

from sparkhaven.store.errors import counted

if TYPE_CHECKING:
    from contextlib import ExitStack

    from sparkhaven.ingest.feeds.base import Waiting
    from sparkhaven.store.epochs.state.replay import StreamState
    from sparkhaven.store.places import TablePlace
    from sparkhaven.writers.merge.date_result import DateResult
    from sparkhaven.writers.merge.executor import Executor

Where = Literal["auto", "local", "spark"]


@dataclass(frozen=True, slots=True)
class LocalLimits:
    """What one process ingests in less time than Spark takes to start, also where files are packed or rows are wide.

    ``merged_rows`` None: as many as a merge gives to one task.
    """

    bytes: int = 64 << 20
    rows: int = 500_000
    merged_rows: int | None = None

    def __str__(self) -> str:
        return f"{self.bytes >> 20} MiB or {counted(self.rows, 'row')}"


LIMITS = LocalLimits()


@dataclass(frozen=True, slots=True)
class RunChoice:
    """``local``: in this process; ``why`` completes a sentence."""

    local: bool
    why: str


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """How a job over dates of history runs.

    ``where``: in this process, in Spark, or as the rows decide. ``note`` is told how it goes on.
    """

    where: Where = "local"
    workers: int | None = None
    stop_on_error: bool = False
    dry_run: bool = False
    verbose: bool = False
    note: Callable[[str], None] = field(default=lambda _: None)

    def executors(self, opened: ExitStack, place: TablePlace, command: str) -> tuple[Executor, Callable[[], Executor]]:
        """This process, and what starts Spark for ``command``, both until ``opened`` ends."""
        from sparkhaven.writers.merge.executor import LocalExecutor, local_workers  # few commands merge

        count = self.workers or local_workers()
        here = LocalExecutor(count if self.where == "local" else min(count, local_workers()))
        name = f"sparkhaven {command}"
        start = partial(spark_executor, opened, place, name, self.workers, verbose=self.verbose)
        return opened.enter_context(here), start


def is_submitted(environ: Mapping[str, str]) -> bool:
    """Whether spark-submit runs this process, so that the JVM runs already."""
    return "PYSPARK_GATEWAY_PORT" in environ


def choose(where: Where, submitted: bool) -> RunChoice | None:
    """The choice that does not depend on the input; None where that decides. ``submitted``: spark-submit runs us."""
    if where != "auto":
        return RunChoice(where == "local", f"as --{where} says")
    return RunChoice(False, "spark-submit has started it") if submitted else None


def choose_by_input(waiting: Sequence[Waiting], limits: LocalLimits = LIMITS) -> RunChoice:
    """The choice for the streams of one command, by what waits in their feeds, together."""
    shares = [_share(feed, limits) for feed in waiting]
    amounts = " and ".join(feed.words for feed in waiting) or "nothing"
    if None in shares:
        return RunChoice(False, "a feed does not tell how much waits")
    local = sum(share for share in shares if share is not None) <= 1
    return RunChoice(local, f"{amounts} to ingest{'. Spark starts above' if local else ', more than'} {limits}")


def choose_for_merge(
    where: Where, submitted: bool, rows: int, planned: Iterable[DateResult], parallel_rows: int
) -> RunChoice:
    """The choice for ``rows`` and for dates as a dry run plans them; planning ends as soon as they are too many.

    A date below ``parallel_rows`` is one task wherever it is merged.
    """
    chosen = choose(where, submitted)
    if chosen is not None:
        return chosen
    dates = iter(planned)
    while rows <= parallel_rows:
        date = next(dates, None)
        if date is None:
            return RunChoice(True, f"{counted(rows, 'row')} to merge. Spark starts above {parallel_rows:,}")
        rows += date.rows_in
    return RunChoice(False, f"more than {parallel_rows:,} rows to merge")


def rows_of(states: Iterable[StreamState], dates: Collection[str]) -> int:
    """Committed rows of dates. Of dates that were never merged it is what a merge takes, without planning them."""
    return sum(state.locations[key].rows for state in states for key in state.locations if key.value in dates)


def _share(waiting: Waiting, limits: LocalLimits) -> float | None:
    parts = (waiting.bytes, limits.bytes), (waiting.rows, limits.rows)
    return max((amount / limit for amount, limit in parts if amount is not None), default=None)


def spark_executor(opened: ExitStack, place: TablePlace, name: str, workers: int | None, *, verbose: bool) -> Executor:
    """An executor over a Spark session called ``name``, which ends with ``opened``."""
    from sparkhaven.jobs.session.spark_session import build_session, end_session
    from sparkhaven.writers.spark.workers import SparkExecutor

    session = build_session(name, workers=workers, verbose=verbose)
    opened.callback(end_session, session)
    return SparkExecutor(session.sparkContext, place.layout.root, place.layout.schema(place.table), workers)
