"""Numbers of symbols: in the order of the first rows, for any dictionary that a decoder gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.format.column.symbols import FEW, assign_numbers
from sparkhaven.store.types.datatypes import INT_NULL

TEXTS = st.sampled_from(["", "a", "b", "c", "é"])


def plain_numbers(texts: Sequence[str | None], known: Mapping[str, int]) -> tuple[list[int], list[str]]:
    """The same text by text."""
    new: dict[str, int] = {}
    rows = []
    for text in texts:
        if text is None:
            rows.append(INT_NULL)
        else:
            rows.append(known[text] if text in known else new.setdefault(text, len(known) + len(new)))
    return rows, list(new)


@given(
    st.lists(TEXTS | st.none(), max_size=6),
    st.lists(st.none() | st.integers(0, 5), max_size=12),
    st.lists(TEXTS, unique=True, max_size=3),
)
@example(["a", "a", "b", None], [1, 2, 0, None, 3], [])
@example(["c", "a", "c", "b"], [2, 0, 1, 3], ["a"])
def test_as_text_by_text(entries: list[str | None], ids: list[int | None], before: list[str]) -> None:
    """Entries may be null, without rows, or there twice."""
    ids = [None if one is None or one >= len(entries) else one for one in ids]
    coded = pa.DictionaryArray.from_arrays(pa.array(ids, pa.int32()), pa.array(entries, pa.string()))
    known = {text: number for number, text in enumerate(before)}
    texts = [None if one is None else entries[one] for one in ids]
    for array in (coded, pa.array(texts, pa.string()), pa.array(texts, pa.large_string())):
        data, new = assign_numbers(array, known)
        assert (np.frombuffer(data, "<i4").tolist(), new) == plain_numbers(texts, known)
        data, new = assign_numbers(pa.concat_arrays([array] * (FEW + 1)), known)
        assert (np.frombuffer(data, "<i4").tolist(), new) == plain_numbers(texts * (FEW + 1), known)


@pytest.mark.parametrize("times", [1, FEW], ids=["few", "many"])
def test_a_full_table(times: int) -> None:
    assert assign_numbers(pa.array(["a", "b"] * times), {}, 2)[1] == ["a", "b"]
    with pytest.raises(SchemaMismatchError, match="full"):
        assign_numbers(pa.array(["a", "c"] * times), {"x": 0}, 2)
