"""Row sets as bytes: the examples of the format, and every list of commands that is none."""

from __future__ import annotations

import numpy as np
import pytest

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.types.codings.row_ranges_codec import decode_rows, encode_rows

EXAMPLES = {
    "20": [],
    "0C 03 20": [(3, 3)],
    "09 012C 20": [(300, 300)],
    "1C 02 00 FC 20": [(0, 4)],
    "1C 04 00 FC 06 FE 20": [(0, 4), (10, 12)],
    "0C 05 0A 00009C3B 0B 00000000B2CFC1C0 20": [(5, 5), (40000, 40000), (3000000000, 3000000000)],
    "0A 000186A0 0A FFD3BFE0 20": [(100000, 3000000)],
    "14 05 0001 0004 0127 FFFE 0256 20": [(1, 1), (5, 5), (300, 302), (900, 900)],
}


def ranges(found: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """First rows, and rows after the last."""
    table = np.array(found, np.int64).reshape(-1, 2)
    return table[:, 0].copy(), table[:, 1] + 1


@pytest.mark.parametrize(("text", "found"), EXAMPLES.items())
def test_examples_of_the_format(text: str, found: list[tuple[int, int]]) -> None:
    starts, stops = ranges(found)
    assert encode_rows(starts, stops) == bytes.fromhex(text)
    for one, other in zip(decode_rows(bytes.fromhex(text)), (starts, stops), strict=True):
        assert one.tolist() == other.tolist()


def test_other_lists_of_commands_are_the_same_set() -> None:
    starts, stops = decode_rows(bytes.fromhex("0C 00 0C FC 0C 06 0C FE 20"))
    assert (starts.tolist(), stops.tolist()) == ([0, 10], [5, 13])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no end"),
        ("0C 03", "no end"),
        ("20 20", "follow the end"),
        ("0D 03 20", "unknown command"),
        ("28 20", "unknown command"),
        ("0C", "cut short"),
        ("09 01", "cut short"),
        ("1C 04 00 FC 20", "cut short"),
        ("14 FF 20", "cut short"),
        ("0C FC 20", "not those of ranges"),
        ("1C 03 00 FC FC 20", "not those of ranges"),
        ("1C 02 03 00 20", "not those of ranges"),
        ("0C 09 20", "beyond the location"),
    ],
)
def test_other_bytes_are_damage(text: str, what: str) -> None:
    with pytest.raises(CorruptFileError, match=what):
        decode_rows(bytes.fromhex(text), "somewhere", rows=9)


def test_ranges_that_do_not_ascend_are_not_written() -> None:
    for found in ([(3, 5), (6, 7)], [(3, 5), (1, 1)], [(-1, 1), (5, 5)]):
        with pytest.raises(ValueError, match="ascend"):
            encode_rows(*ranges(found))
    with pytest.raises(ValueError, match="not ranges of rows"):
        encode_rows(*ranges([(-1, 1)]))
