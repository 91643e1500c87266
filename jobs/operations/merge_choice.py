"""Whether a merge is worth the start of Spark: by the rows that it has to write, unless the command says it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sparkhaven.jobs.session.spark_or_local import RunChoice, Where, choose
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.writers.merge.date_result import DateResult
from sparkhaven.writers.merge.plan.merge_plan import PARALLEL_ROWS


def choose_for_merge(where: Where, submitted: bool, rows: int, planned: Iterable[DateResult]) -> RunChoice:
    """The choice for ``rows`` and for dates as a dry run plans them; planning ends as soon as they are too many.

    A date below ``PARALLEL_ROWS`` is one task wherever it is merged.
    """
    chosen = choose(where, submitted)
    if chosen is not None:
        return chosen
    waiting = iter(planned)
    while rows <= PARALLEL_ROWS:
        each = next(waiting, None)
        if each is None:
            return RunChoice(True, f"{rows:,} rows to merge. Spark starts above {PARALLEL_ROWS:,}")
        rows += each.rows_in
    return RunChoice(False, f"more than {PARALLEL_ROWS:,} rows to merge")


def rows_of(states: Iterable[StreamState], values: Collection[str]) -> int:
    """Committed rows of dates. Of dates that were never merged it is what a merge takes, without planning them."""
    taken = frozenset(values)
    return sum(state.locations[key].rows for state in states for key in state.locations if key.value in taken)
