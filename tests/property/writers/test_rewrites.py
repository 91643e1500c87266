"""Histories of a date: rewrites of any columns, late rows and merges in any order, against rows in plain Python."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.writers.validation.date_validation import validate_date
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import ARROW, DAY, as_table, comparable, naive_key, random_row, read_location
from tests.support.writers.merge_runs import make, merge
from tests.support.writers.removals import empty, unlink
from tests.support.writers.rewrite_runs import SETTINGS, fits, rewrite

Row = dict[str, Any]
STEPS = st.one_of(
    st.lists(st.integers(0, len(SETTINGS) - 1), min_size=1, max_size=4, unique_by=lambda n: SETTINGS[n][0]),
    st.sampled_from(["late", "merge", "again"]),
)


def shown(rows: list[Row]) -> list[str]:
    return sorted(repr([comparable(row[name]) for name in ARROW]) for row in rows)


def check(db: IntradayRows, rows: list[Row]) -> None:
    """All rows by Arrow; in each location the groups in their order."""
    table = open_table(db.root, "Test.Every").to_arrow(list(ARROW))
    at = table.schema.get_field_index("T")
    table = table.set_column(at, "T", table["T"].cast(pa.int64()))
    assert shown(table.to_pylist()) == shown(rows)
    record = newest(db.place, DAY)
    assert record is not None
    for output in record.outputs:
        if "table.parquet" not in output.files:
            groups = [row["Sym"] for row in read_location(db.layout, db.schema, LocationKey(output.internal, DAY))]
            assert groups == sorted(groups, key=naive_key)


@pytest.mark.slow
@settings(max_examples=24, deadline=None)
@given(
    seed=st.integers(0, 99),
    form=st.sampled_from(["deephaven", "parquet", "both"]),
    steps=st.lists(STEPS, min_size=1, max_size=5),
)
@example(seed=0, form="deephaven", steps=[[9], [7], [0, 5]])  # a value that column B has no room for
@example(seed=27, form="deephaven", steps=[[9], [11, 7], [0, 2, 9]])
def test_any_history_of_rewrites_is_that_of_plain_rows(seed: int, form: str, steps: list[Any]) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as directory:
        db, merged = make(Path(directory), 30, seed=seed)
        merge(db.layout, format=form)
        late: list[Row] = []
        for step in steps:
            if step == "late":
                new = [random_row(rng) for _ in range(7)]
                db.commit({("c", DAY): as_table(new)})
                late += new
            elif isinstance(step, str):
                merge(db.layout, rewrite=step == "again")
                merged, late = merged + late, []
            else:
                chosen = [SETTINGS[number] for number in step]
                changed = [{**row, **{name: fn(row) for name, _, fn in chosen}} for row in merged]
                settings_of = {name: text for name, text, _ in chosen}
                if all(map(fits, changed)):
                    rewrite(db.layout, settings_of, again=True)
                    merged = changed
                else:
                    with pytest.raises(SchemaMismatchError):
                        rewrite(db.layout, settings_of, again=True)
            check(db, merged + late)
            assert validate_date(db.place, DAY).passed
        if late:
            merge(db.layout)
        empty(db)
        check(db, merged + late)
        unlink(db)
        check(db, merged + late)
