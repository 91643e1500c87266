"""Values at the edges of what the compiled core takes of codings: the bytes that a coding refuses are in doubt."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.store.native.codings import decode_blobs, doubtful_sets, encode_blobs
from sparkhaven.store.types.codings.coding import BlobCoding
from sparkhaven.store.types.codings.decimals import FreeDecimals, plain_text
from sparkhaven.store.types.codings.java_array import JavaArrays
from sparkhaven.store.types.codings.row_set import RowSets
from sparkhaven.store.types.codings.string_map import StringMaps

LAST = (2**63 - 1).to_bytes(8, "big")
ONE_KEY = b"\0\0\0\1\0\0\0\1k"  # a map of one entry, up to its value


def decoded(coding: BlobCoding, *values: bytes) -> pa.Array | None:
    """What the core makes of values, which is what the coding makes of them, or None where one is in doubt."""
    ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    data = pa.py_buffer(b"".join(values))
    core, (plain, bad) = decode_blobs(ends, data, coding), coding.decode(ends, data)
    assert core is None or (bad is None and str(core.to_pylist()) == str(plain.to_pylist()))
    return core


@pytest.mark.parametrize(
    ("data", "taken", "words"),
    [
        (b"\x0c\x05\x20", True, "5"),
        (b"\x0c\x05\x20\x20", False, "bytes after the end"),
        (b"\x0c\x05", False, "no end"),
        (b"\x0c\x00\x20", True, "0"),
        (b"\x0c\x05\x0c\x00\x20", False, "5 twice"),
        (b"\x0c\x05\x0c\xfe\x20", True, "5 to 7"),
        (b"\x0c\x05\x0c\xfe\x0c\xff\x20", False, "two ends of a range"),
        (b"\x0c\xff\x20", False, "the end of a range without its first row"),
        (b"\x0c\x05\x28\x20", False, "a command too large"),
        (b"\x0c\x05\x24\x01\x20", False, "the end with a number"),
        (b"\x0c\x05\x0d\x01\x20", False, "a size too large"),
        (b"\x0c\x05\x08\x20", False, "a command without a size"),
        (b"\x0b" + LAST + b"\x20", True, "the last row that may be"),
        (b"\x0b" + LAST + b"\x0c\x01\x20", False, "a row beyond"),
        (b"\x1c\x02\x01\x01\x20", True, "1 and 2"),
        (b"\x1c\x03\x01\x01\x20", False, "more numbers than bytes"),
        (b"\x1c\xff\x01\x20", False, "a negative number of distances"),
        (b"\x14\x01\x01\x00\x20", True, "256"),
        (b"\x14\x01\x01\x20", False, "half a number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_row_sets(data: bytes, taken: bool, words: str) -> None:
    doubt = doubtful_sets(pa.array([data], pa.binary()))
    _, bad = RowSets().decode(np.array([0, len(data)], np.int64), pa.py_buffer(data))
    assert doubt is not None and doubt.tolist() == [not taken], words
    assert (bad is None) is taken


@pytest.mark.parametrize("count", [1, 7, 8, 9, 15, 16, 17])
@pytest.mark.parametrize("last", [True, False, None])
def test_lists_of_booleans_of_any_length(count: int, last: bool | None) -> None:
    coding = JavaArrays("Z", "boolean[]")
    array = pa.array([[True] * (count - 1) + [last], [last] * count], coding.arrow)
    made, (ends, data, bad) = encode_blobs(array, coding), coding.encode(array)
    if bad is not None:
        assert made is None
        return
    assert made is not None and (made[0] == ends).all() and made[1].tobytes() == data.tobytes()
    values = [data.tobytes()[low:high] for low, high in zip([0, *ends[:-1]], ends, strict=True)]
    back = decoded(coding, *values)
    assert back is not None and back.equals(array)


@pytest.mark.parametrize(
    ("kind", "data", "taken"),
    [
        ("Float", b"\x7f\xa0\0\0", False),  # signals, by one bit alone
        ("Float", b"\x7f\xc0\0\0", True),
        ("Float", b"\x7f\x80\0\0", True),
        ("Boolean", b"\1", True),
        ("Boolean", b"\0", True),
        ("Boolean", b"\2", True),  # true
        ("Boolean", b"\xff", True),  # null
    ],
)
def test_values_of_maps(kind: str, data: bytes, taken: bool) -> None:
    assert (decoded(StringMaps(kind), ONE_KEY + data) is not None) is taken


@pytest.mark.campaign
@pytest.mark.parametrize("power", [7, 8, 15, 63, 64, 126, 127, 128, 130, 255])
@pytest.mark.parametrize("beside", [-2, -1, 0, 1, 2])
@pytest.mark.parametrize("sign", [-1, 1])
def test_whole_numbers_around_powers_of_two(power: int, beside: int, sign: int) -> None:
    array = pa.array([str(sign * 2**power + beside)], pa.string())
    for whole in (True, False):
        coding = FreeDecimals(whole=whole)
        made, (ends, data, _) = encode_blobs(array, coding), coding.encode(array)
        assert made is not None and (made[0] == ends).all() and made[1].tobytes() == data.tobytes()
        back = decoded(coding, data.tobytes())
        assert back is not None and back.equals(array)


@pytest.mark.parametrize("digits", [1, 2, 3, 18, 19, 38])
@pytest.mark.parametrize("more", [-1, 0, 1, 2])
def test_as_many_places_as_digits(digits: int, more: int) -> None:
    coding, number = FreeDecimals(whole=False), int("1234567890" * 4) // 10 ** (40 - digits)
    array = pa.array([plain_text(Decimal(number).scaleb(-digits - more))], pa.string())
    made, (ends, data, _) = encode_blobs(array, coding), coding.encode(array)
    assert made is not None and (made[0] == ends).all() and made[1].tobytes() == data.tobytes()
    back = decoded(coding, data.tobytes())
    assert back is not None and back.equals(array)


def test_a_whole_number_has_no_places() -> None:
    assert decoded(FreeDecimals(whole=False), b"\0\0\0\1\x0c") is not None
    assert decoded(FreeDecimals(whole=True), b"\0\0\0\1\x0c") is None
    assert decoded(FreeDecimals(whole=True), b"\0\0\0\0\x0c") is not None


@pytest.mark.parametrize("count", [2, 15, 16, 17, 31, 32, 33, 100, 1000])
@pytest.mark.parametrize("again", [0.0, 0.5, 1.0])
def test_a_key_that_comes_again_is_found_wherever_it_is(count: int, again: float) -> None:
    """As many keys of one length as of several: both orders are compared."""
    keys = [f"{number * 7919 % 1000:03}" + "k" * (number % 3) for number in range(count)]
    maps, coding = pa.map_(pa.string(), pa.int64()), StringMaps("Long")
    different = pa.array([[(key, 1) for key in keys]], maps)
    assert encode_blobs(different, coding) is not None
    for place in {0, count // 2, count}:
        doubled = [*keys[:place], keys[int(again * (count - 1))], *keys[place:]]
        assert encode_blobs(pa.array([[(key, 1) for key in doubled]], maps), coding) is None
