"""The budget for bad rows: a number of a batch, and a fraction of the last hour."""

from __future__ import annotations

import pytest

from sparkhaven.ingest.bad_rows import BadRow
from sparkhaven.ingest.spec import BadRowBudget
from sparkhaven.ingest.values.typed_rows import Refusal
from sparkhaven.jobs.streams.stream_run import ErrorBudget
from sparkhaven.store.errors import ErrorBudgetExceeded
from sparkhaven.store.quarantine.rejected_rows import Reason
from sparkhaven.writers.batch.commit import BatchOutcome
from sparkhaven.writers.task import SplitNotes


class Stream:
    """Batches of good and bad rows at moments of a clock."""

    def __init__(self, budget: BadRowBudget) -> None:
        self.now = 0.0
        self.budget = ErrorBudget(budget, lambda: self.now)

    def batch(self, good: int, bad: int, *, at: float) -> None:
        self.now = at
        notes = SplitNotes()
        if bad:
            notes.reject([BadRow("f", 1, "N", Refusal(Reason.NOT_A_NUMBER, "a number"), "x")], bad)
            self.budget(notes, good)
        self.budget.committed(BatchOutcome(0, 1, rows=good, rejected=bad))


def test_a_bad_row_in_a_small_batch_is_weighed_against_the_hour() -> None:
    stream = Stream(BadRowBudget(5, 0.01, min_rows=0))
    with pytest.raises(ErrorBudgetExceeded, match="1 bad of 50 rows:"):
        stream.batch(49, 1, at=0.0)
    for second in range(20):
        stream.batch(50, 0, at=second)
    for bad in range(1, 11):
        stream.batch(9, 1, at=30.0 + bad)  # the tenth makes 10 of 1,100
    with pytest.raises(ErrorBudgetExceeded, match="2 bad of 2 rows, after 10 of 1100 in the hour before:"):
        stream.batch(0, 2, at=50.0)
    with pytest.raises(ErrorBudgetExceeded, match="6 bad of 100006 rows"):
        stream.batch(100_000, 6, at=60.0)  # however many are good
    with pytest.raises(ErrorBudgetExceeded, match="1 bad of 50 rows:"):
        stream.batch(49, 1, at=3660.0)  # the hour is over


def test_of_few_rows_the_fraction_is_not_checked() -> None:
    stream = Stream(BadRowBudget(5, 0.01, min_rows=100))
    stream.batch(0, 4, at=0.0)
    stream.batch(90, 0, at=1.0)
    with pytest.raises(ErrorBudgetExceeded, match="6 bad of 6 rows") as caught:
        stream.batch(0, 6, at=2.0)  # a batch has its own limit all the same
    assert str(caught.value.expected).endswith("of all in an hour if they are 100 or more")
    stream.batch(4, 1, at=3.0)
    with pytest.raises(ErrorBudgetExceeded, match="1 bad of 1 rows, after 5 of 99 in the hour before"):
        stream.batch(0, 1, at=4.0)


def test_the_default_takes_one_bad_row_of_a_small_first_batch() -> None:
    Stream(BadRowBudget()).batch(9, 1, at=0.0)
    with pytest.raises(ErrorBudgetExceeded):
        Stream(BadRowBudget(max_fraction=0.0)).batch(9, 1, at=0.0)


def test_what_is_remembered_does_not_grow_with_the_batches() -> None:
    stream = Stream(BadRowBudget(5, 1.0))
    for number in range(20_000):
        stream.batch(1, number % 2, at=number / 2)
    assert len(stream.budget._pieces) <= 62
