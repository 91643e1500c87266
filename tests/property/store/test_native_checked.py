"""What lies in files looks the same to the compiled core, without it, and to plain Python; no byte is out of place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkhaven.store.native import checked_columns
from sparkhaven.store.native.checked_columns import NULL_ID, TextFacts
from tests.oracles.columns import plain_check_ids, plain_check_texts, plain_count_nulls, plain_valid_bits
from tests.support.guard_pages import guarded
from tests.support.native_values import NULLS, fixed_values

SIZES = (0, 1, 7, 8, 9, 63, 127, 128, 129, 1023, 5000)


@pytest.mark.campaign
@pytest.mark.parametrize("kind", NULLS)
@pytest.mark.parametrize("size", SIZES)
def test_nulls_are_counted_and_become_bits(kind: str, size: int) -> None:
    values, null = fixed_values(kind, size), NULLS[kind]
    wanted = [value == null for value in values.tolist()]
    bits = sum((not missing) << row for row, missing in enumerate(wanted)).to_bytes(-(-size // 8), "little")
    with guarded(values) as held:
        assert checked_columns.count_nulls(held, null) == plain_count_nulls(values, null) == sum(wanted)
        assert checked_columns.valid_bits(held, null).tobytes() == plain_valid_bits(values, null).tobytes() == bits


@pytest.mark.parametrize("place", [0, 130, 4999])
@pytest.mark.parametrize("odd", [-1, -(2**31) + 1, 5000, 2**31 - 1])
@pytest.mark.parametrize("nulls", [[], [3, 200, 4998]])
def test_an_id_that_no_symbol_has(place: int, odd: int, nulls: list[int]) -> None:
    ids = np.random.default_rng(1).integers(0, 5000, 5000).astype(np.int32)
    ids[nulls] = NULL_ID
    ids[place] = 4999
    with guarded(ids) as held:
        assert checked_columns.check_ids(held, 5000) == plain_check_ids(ids, 5000) == len(nulls)
        assert checked_columns.check_ids(held, 4999) is plain_check_ids(ids, 4999) is None
        held[place] = ids[place] = odd
        assert checked_columns.check_ids(held, 5000) is plain_check_ids(ids, 5000) is None
        assert checked_columns.check_ids(held[:0], 0) == plain_check_ids(ids[:0], 0) == 0


@pytest.mark.parametrize("entries", [2**31 - 1, 2**31, 2**40])
def test_a_table_larger_than_ids_can_name(entries: int) -> None:
    ids = np.array([NULL_ID, 0, 2**31 - 2, -1], np.int32)
    with guarded(ids[:3]) as held, guarded(ids) as wrong:
        assert checked_columns.check_ids(held, entries) == plain_check_ids(ids[:3], entries) == 1
        assert checked_columns.check_ids(wrong, entries) is plain_check_ids(ids, entries) is None


def looked(texts: list[bytes], lead: int = 0, tail: bytes = b"", *, ascii_only: bool = False) -> TextFacts | None:
    """What both ways find of texts that begin at a place of their file; ends come out from there on."""
    ends = lead + np.cumsum([len(text) for text in texts], dtype=np.int64)
    data = np.frombuffer(b"".join(texts) + tail, np.uint8)
    out, other = (np.full(len(texts) + 1, -7, np.int32) for _ in range(2))
    with guarded(ends) as held, guarded(data) as octets, guarded(out) as offsets:
        found = checked_columns.check_texts(held, lead, octets, ascii_only=ascii_only, out=offsets)
        assert found == checked_columns.check_texts(held, lead, octets, ascii_only=ascii_only)
        assert found == plain_check_texts(ends, lead, data, ascii_only=ascii_only, out=other)
        if found is not None:
            assert offsets.tolist() == other.tolist() == [0, *(ends - lead).tolist()]
    return found


PIECES = [
    b"",
    b"\0",
    b"a",
    b"abcdefgh",
    "é".encode(),
    "€".encode(),
    "\U0001f600".encode(),
    b"\xff",
    b"\xc3",
    b"\xa9",
    b"\xe2\x82",
]


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=20)), max_size=40), st.integers(0, 2**40))
def test_texts_of_any_bytes(texts: list[bytes], lead: int) -> None:
    for charset in ("utf-8", "ascii"):
        try:
            for text in texts:
                text.decode(charset)
            wanted = TextFacts(texts.count(b""), texts.count(b"\0"), sum(map(len, texts)))
        except UnicodeDecodeError:
            wanted = None  # type: ignore[assignment]
        assert looked(texts, lead, b"\xff", ascii_only=charset == "ascii") == wanted


@pytest.mark.parametrize("place", [0, 1022, 1023, 1024, 2999])
@pytest.mark.parametrize("odd", ["\xff".encode("latin-1"), "é".encode()[:1], "é".encode()[1:]])
def test_one_text_of_many_that_is_none(place: int, odd: bytes) -> None:
    texts = [b"x%d" % number for number in range(3000)]
    assert looked(texts, 5) == TextFacts(0, 0, sum(map(len, texts)))
    texts[place] = b""
    assert looked(texts, 5) == TextFacts(1, 0, sum(map(len, texts)))
    texts[place] = b"\0"
    assert looked(texts, 5) == TextFacts(0, 1, sum(map(len, texts)))
    texts[place] = odd
    assert looked(texts, 5) is None


@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_a_character_that_two_texts_share(cut: int) -> None:
    data = "a\U0001f600".encode()
    assert (looked([data[: 1 + cut], data[1 + cut :]]) is None) == (cut > 0)


@pytest.mark.campaign
@pytest.mark.parametrize("place", [0, 1, 1023, 1024, 1999])
@pytest.mark.parametrize("odd", [-1, 0, 4, 9, 10_000, 2**31, 2**32 + 12, 2**63 - 1, -(2**63)])
def test_an_end_out_of_order_or_outside(place: int, odd: int) -> None:
    ends = 10 + np.arange(1, 2001) * 4
    ends[place] = odd
    data = np.full(8000, 65, np.uint8)
    sound = sorted([10, *ends.tolist()]) == [10, *ends.tolist()] and ends[-1] <= 8010
    with guarded(ends) as held, guarded(data) as octets:
        for way in (checked_columns.check_texts, plain_check_texts):
            assert (way(held, 10, octets, ascii_only=False) is not None) == sound
