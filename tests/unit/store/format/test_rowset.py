"""Row sets as bytes: the examples of the format, and every list of commands that is none."""

from __future__ import annotations

import numpy as np
import pytest

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.types.codings.row_set import decode_rows, decode_sets, encode_rows

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


def test_ranges_that_do_not_ascend_are_not_written() -> None:
    for found in ([(3, 5), (6, 7)], [(3, 5), (1, 1)], [(-1, 1), (5, 5)]):
        with pytest.raises(ValueError, match="ascend"):
            encode_rows(*ranges(found))
    with pytest.raises(ValueError, match="not ranges of rows"):
        encode_rows(*ranges([(-1, 1)]))


def test_several_sets_are_decoded_as_each_alone() -> None:
    sets = [bytes.fromhex(text) for text in (*EXAMPLES, "0C 00 20", "0B 00000000B2D05E01 20")]
    starts, stops, counts = decode_sets(sets, str, 2**40)
    alone = [decode_rows(data) for data in sets]
    assert counts.tolist() == [len(one) for one, _ in alone]
    assert starts.tolist() == [row for one, _ in alone for row in one.tolist()]
    assert stops.tolist() == [row for _, other in alone for row in other.tolist()]
    assert [len(part) for part in decode_sets([], str, 5)] == [0, 0, 0]
    for text in ("0C FC 20", "0C 05 20", "0C 04", "0C 04 21", "20 20"):  # negative, beyond, no end, others
        with pytest.raises(CorruptFileError) as caught:
            decode_sets([bytes.fromhex("0C 04 20"), bytes.fromhex(text)], lambda index: f"set {index}", 5)
        assert str(caught.value.where).startswith("set 1")
