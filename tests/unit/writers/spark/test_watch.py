"""How the end of a query is awaited."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from sparkhaven.writers.spark.stream_query import _watch


class QueryInItsLastMoment:
    """It counts as ended, and its error comes a moment later."""

    def awaitTermination(self, timeout: float | None = None) -> bool:
        if timeout is None:
            raise RuntimeError("the error of the query")
        return True


def test_the_error_of_a_query_is_waited_for() -> None:
    query: Any = QueryInItsLastMoment()
    nothing: Any = None
    with pytest.raises(RuntimeError, match="of the query"):
        _watch(query, nothing, threading.Event(), nothing, by_itself=True)
