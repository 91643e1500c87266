"""The entries of a dictionary that rows have are found in the order of their rows, wherever one stops to look."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sparkhaven.store.format.column.symbols import used_entries


@given(count=st.integers(1, 5), rows=st.data(), share=st.integers(0, 2))
def test_used_entries_are_those_of_the_rows(count: int, rows: st.DataObject, share: int) -> None:
    index = st.none() | st.integers(0, count - 1)
    runs = rows.draw(st.lists(st.tuples(index, st.integers(1, 20)), max_size=8))
    indices = [index for index, length in runs for _ in range(length)]
    found = used_entries(pa.array(indices, pa.int32()), count, share).tolist()
    assert found == list(dict.fromkeys(index for index in indices if index is not None))
