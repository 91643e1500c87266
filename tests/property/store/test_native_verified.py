"""One pass over files says the same by the compiled core, without it, and by plain Python; no byte is out of place."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkhaven.store.native import checked_columns
from sparkhaven.store.native.checked_columns import NULL_ID, TextBounds
from tests.oracles.columns import plain_verify_fixed, plain_verify_ids, plain_verify_texts
from tests.support.guard_pages import guarded
from tests.support.native_values import LANES, NULLS, fixed_values, limited

SIZES = (0, 1, 7, 127, 129, 1023, 5000)
CRC = 0x12345678


@pytest.fixture(scope="module", params=LANES, autouse=True)
def lane(request: pytest.FixtureRequest) -> Iterator[None]:
    with limited(request.param):
        yield


@given(st.binary(max_size=700), st.integers(0, 2**32 - 1), st.integers(0, 63))
def test_checksums_of_any_bytes(data: bytes, crc: int, lead: int) -> None:
    with guarded(np.frombuffer(data, np.uint8)) as held:
        assert checked_columns.crc32_each(held, [len(data)], [crc]) == [zlib.crc32(data, crc)]
        rest = held[min(lead, len(data)) :]
        assert checked_columns.crc32_each(rest, [len(rest)]) == [zlib.crc32(rest.tobytes())]


@pytest.mark.campaign
@pytest.mark.parametrize("size", [0, 7, 8, 63, 64, 65, 255, 256, 257, 319, 320, 4096, 100_003])
def test_checksums_of_parts(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, 2 * size + 5).astype(np.uint8)
    parts, before = [data[:size], data[size : size + 5], data[size + 5 :]], [1, 2, 2**32 - 1]
    wanted = [zlib.crc32(part.tobytes(), crc) for part, crc in zip(parts, before, strict=True)]
    with guarded(data) as held:
        assert checked_columns.crc32_each(held, [size, 5, size], before) == wanted
        with pytest.raises(ValueError, match="parts of"):
            checked_columns.crc32_each(held, [size, 6, size])
        with pytest.raises(ValueError, match="3 checksums"):
            checked_columns.crc32_each(held, [size, 5], before)


@pytest.mark.campaign
@pytest.mark.parametrize("kind", NULLS)
@pytest.mark.parametrize("size", SIZES)
def test_values_within_bounds(kind: str, size: int) -> None:
    values, null = fixed_values(kind, size), NULLS[kind]
    plain = [value for value in values.tolist() if value != null and value == value]
    low, high = min(plain, default=3), max(plain, default=3)
    counts = sum(value == null for value in values.tolist()), int(np.isnan(values).sum())
    with guarded(values) as held:
        for least, most in ((low, high), (low + 1, high), (low, high - 1), (high, low), (50, 50), (null, high)):
            inside = all(least <= value <= most for value in plain)
            wanted = (*counts, zlib.crc32(values.tobytes(), CRC)) if inside else None
            for way in (checked_columns.verify_fixed, plain_verify_fixed):
                assert way(held, null, least, most, CRC) == wanted


@pytest.mark.campaign
@pytest.mark.parametrize("place", [0, 130, 2100, 4999])
@pytest.mark.parametrize("odd", [-1, -(2**31) + 1, 5000, 2**31 - 1])
@pytest.mark.parametrize("nulls", [[], [3, 200, 4998]])
def test_an_id_that_no_symbol_has(place: int, odd: int, nulls: list[int]) -> None:
    ids = np.random.default_rng(1).integers(0, 5000, 5000).astype(np.int32)
    ids[nulls] = NULL_ID
    ids[place] = 4999
    with guarded(ids) as held:
        for way in (checked_columns.verify_ids, plain_verify_ids):
            held[place] = 4999
            assert way(held, 5000, CRC) == (len(nulls), zlib.crc32(ids.tobytes(), CRC))
            assert way(held, 4999, CRC) is None
            held[place] = odd
            assert way(held, 5000, CRC) is None
            assert way(held[:0], 0, CRC) == (0, CRC)


SHORT = st.one_of(
    st.sampled_from([b"", b"\0", b"abcdefgh", b"abcdefghi", b"abcdefg", b"abcdefg\0", b"abcdefghk", b"abcdefghij"]),
    st.text(max_size=12).map(str.encode),
    st.binary(max_size=3),
)
WAYS: list[Callable[..., object]] = [checked_columns.verify_texts, plain_verify_texts]


def check(texts: list[bytes], low: bytes, high: bytes | None, *, ascii_only: bool = False, lead: int = 0) -> None:
    """Both ways find what plain Python does of texts that begin at a place of their file, with bounds and without."""
    ends, data = lead + np.cumsum([len(text) for text in texts], dtype=np.int64), b"".join(texts)
    counts = texts.count(b""), (zlib.crc32(ends.tobytes(), 1), zlib.crc32(data, 2))
    with guarded(ends) as held, guarded(np.frombuffer(data, np.uint8)) as octets:
        for bounds in (TextBounds(low, high), None):
            sound = are_text(texts, "ascii" if ascii_only else "utf-8") and are_within(texts, bounds)
            for way in WAYS:
                assert way(held, lead, octets, bounds, (1, 2), ascii_only=ascii_only) == (counts if sound else None)


def are_text(texts: list[bytes], charset: str) -> bool:
    try:
        return all(text.decode(charset) is not None for text in texts)
    except UnicodeDecodeError:
        return False


def are_within(texts: list[bytes], bounds: TextBounds | None) -> bool:
    plain = [b"" if text == b"\0" else text for text in texts if text]
    return bounds is None or all(bounds.low <= text and (bounds.high is None or text <= bounds.high) for text in plain)


@given(texts=st.lists(SHORT, max_size=12), low=SHORT, high=st.none() | SHORT, lead=st.integers(0, 2**40))
def test_texts_within_bounds(texts: list[bytes], low: bytes, high: bytes | None, lead: int) -> None:
    check(texts, low, high, lead=lead)
    check(texts, low, high, ascii_only=True)
    plain = [b"" if text == b"\0" else text for text in texts if text]
    if plain:
        check(texts, min(plain), max(plain))
        check(texts, min(plain) + b"\0", None)
        check(texts, b"", max(plain)[:-1])


@given(
    fill=st.sampled_from([b"b", b"bcdefghi", b"abcdefgz", b"abcdefghkl", b""]),
    odd=st.dictionaries(st.integers(0, 299), SHORT, max_size=3),
    low=st.sampled_from([b"", b"a", b"abcdefgh", b"abcdefghi", b"abcdefg\0"]) | SHORT,
    high=st.sampled_from([None, b"c", b"bcdefghij", b"b\0"]) | SHORT,
    count=st.integers(60, 300),
)
def test_many_texts_within_bounds(
    fill: bytes, odd: dict[int, bytes], low: bytes, high: bytes | None, count: int
) -> None:
    """Those that are looked at together, and a few among them that are otherwise."""
    check([odd.get(place, fill) for place in range(count)], low, high)


@pytest.mark.campaign
@pytest.mark.parametrize("high", [b"abcdefghij", b"abcdefgh", b"c", None])
@pytest.mark.parametrize("odd", [b"abcdefgh", b"abcdefghijk", b"abcdefgi", b"d", b"abcdefgh\x7f", b"\0", b"\x7f" * 9])
@pytest.mark.parametrize("place", [0, 63, 64, 127, 150])
def test_one_text_of_many_that_is_beyond_a_bound(place: int, odd: bytes, high: bytes | None) -> None:
    low = b"abcdefghi"
    texts = [low] * 200
    texts[place] = odd
    texts[170:] = [b"abcdefghia"] * 30
    if high is not None and high < texts[-1]:
        texts = [high if text != odd else odd for text in texts]
        low = high
    check(texts, low, high)


@pytest.mark.parametrize("odd", [b"a", b"abcdefg"])
def test_a_short_text_below_the_bound_before_larger_bytes(odd: bytes) -> None:
    texts = [b"zz"] * 200
    texts[20] = odd
    check(texts, odd, None)
    check(texts, odd + b"h", None)


@pytest.mark.campaign
@pytest.mark.parametrize("length", [0, 1, 31, 33, 1 << 15, (1 << 15) + 1, 100_000])
@pytest.mark.parametrize("place", [0, 700, 1023, 1024, 2500])
def test_a_text_of_any_length_among_many(place: int, length: int) -> None:
    """Texts come together until they are too long for that."""
    texts = [b"%d" % (number % 7) for number in range(2600)]
    texts[place] = b"5" * length
    check(texts, b"0", b"6")
    texts[-1] = b"\xff"
    check(texts, b"0", b"6")


@pytest.mark.campaign
@pytest.mark.parametrize("place", [0, 63, 64, 1023, 1024, 1999])
@pytest.mark.parametrize("odd", [-1, 0, 3, 19_981, 2**31, 2**32 + 12, 2**62, -(2**63), 2**63 - 1])
@pytest.mark.parametrize("bounds", [None, TextBounds(b"A", b"B")])
def test_an_end_out_of_order_or_outside(place: int, odd: int, bounds: TextBounds | None) -> None:
    ends, data = 7 + np.arange(1, 2001) * 10, np.full(20_000, 65, np.uint8)
    ends[place] = odd
    assert not (np.diff(ends, prepend=7) >= 0).all() or ends[-1] != 20_007
    with guarded(ends) as held, guarded(data) as octets:
        for way in WAYS:
            assert way(held, 7, octets, bounds, (0, 0), ascii_only=True) is None


@pytest.mark.parametrize("size", [3, 5])
def test_data_that_does_not_end_with_the_last_text(size: int) -> None:
    with guarded(np.array([2, 4])) as held, guarded(np.full(size, 65, np.uint8)) as octets:
        for way in WAYS:
            assert way(held, 0, octets, None, (0, 0), ascii_only=True) is None
            assert way(held[:0], 4, octets[:0], None, (3, 4), ascii_only=True) == (0, (3, 4))
