"""Whether the bounds of times are exact in microseconds is asked of all of them."""

from __future__ import annotations

import numpy as np
import pytest

from sparkhaven.store.schema.document.schema_file import parse_schema
from sparkhaven.store.types.model import Column
from sparkhaven.writers.merge.write.location_check import FRACTION_ROWS, fixed_stats
from tests.support.writers.merge_cases import SCHEMA


def time_column() -> Column:
    return next(column for column in parse_schema(SCHEMA, "schema").schema.stored if column.type.name == "Instant")


@pytest.mark.parametrize("row", [None, 0, FRACTION_ROWS - 1, FRACTION_ROWS, 3 * FRACTION_ROWS - 1])
def test_one_fraction_of_a_microsecond_anywhere_makes_bounds_inexact(row: int | None) -> None:
    times = np.arange(3 * FRACTION_ROWS, dtype=np.int64) * 1000
    if row is not None:
        times[row] += 1
    assert fixed_stats(times, time_column(), 0).exact_us is (row is None)
