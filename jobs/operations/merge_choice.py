"""Whether a merge is worth the start of Spark: by the rows that it has to write, unless the command says it."""

from __future__ import annotations

from collections.abc import Iterable

from jobs.session.choice import Choice, Where, choose
from writers.merge.dates import DateResult
from writers.merge.plan.plan import PARALLEL_ROWS


def choose_for_merge(where: Where, submitted: bool, planned: Iterable[DateResult]) -> Choice:
    """The choice for dates as a dry run plans them; planning ends as soon as they are too many.

    A date below ``PARALLEL_ROWS`` is one task wherever it is merged.
    """
    chosen = choose(where, submitted)
    if chosen is not None:
        return chosen
    rows = 0
    for each in planned:
        rows += each.rows_in
        if rows > PARALLEL_ROWS:
            return Choice(False, f"more than {PARALLEL_ROWS:,} rows to merge")
    return Choice(True, f"{rows:,} rows to merge; Spark starts above {PARALLEL_ROWS:,}")
