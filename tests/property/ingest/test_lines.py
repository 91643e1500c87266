"""Lines keep their numbers, whatever chunks, blocks and parts a file comes in, and however long its lines are."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.content.lines import LineBlock, line_blocks
from sparkhaven.ingest.content.raw_file import PlannedFile, RawFile, line_pieces, part_lines
from sparkhaven.ingest.encodings import utf8_chunks
from sparkhaven.store.epochs.state.log_values import FilePart
from sparkhaven.store.io.fs import Fs
from tests.support.ingest.ingest_cases import write
from tests.support.ingest.naive_lines import BOM, lines_of, text_length

MARKS = {"utf-16": "\ufeff", "utf-8": "", "utf-16le": "", "utf-16be": "", "latin-1": ""}
CODECS = {"utf-16": "utf-16-le", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be"}
LINES = st.lists(st.sampled_from(["", "a", "\r", "bcd", "é" * 5, "x" * 9, "y" * 30, "\u010a"]), max_size=12)

Reported = tuple[list[tuple[int, bytes]], list[tuple[int, bytes, int]]]


def expected(content: bytes, max_line: int) -> Reported:
    numbered = list(enumerate(lines_of(content), 1))
    whole = [(n, line) for n, line in numbered if text_length(line) <= max_line]
    long = [(n, line[:max_line], text_length(line)) for n, line in numbered if text_length(line) > max_line]
    return whole, long


def reported(blocks: Iterable[LineBlock], lines: int) -> Reported:
    """Lines with their ends, by number, and those that were too long; the latter stand before the lines of a block."""
    whole: list[tuple[int, bytes]] = []
    long: list[tuple[int, bytes, int]] = []
    for one in blocks:
        assert len(one) <= lines
        for line in one.too_long:
            assert all(line.number < number for number in one.numbers.tolist())
            long.append((line.number, line.head, line.size))
        spans = pairwise(one.ends.tolist())
        whole += [(number, one.data[a:b]) for number, (a, b) in zip(one.numbers.tolist(), spans, strict=True)]
        assert [n for n, _ in whole] == sorted({n for n, _ in whole} - {n for n, _, _ in long})
    return whole, long


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    lines=LINES,
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    encoding=st.sampled_from(sorted(MARKS)),
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 25), st.integers(1, 4)),
    max_line=st.integers(1, 20),
)
def test_numbers_are_those_of_the_lines_of_the_file(
    lines: list[str], end: str, last: bool, encoding: str, sizes: tuple[int, int, int], max_line: int
) -> None:
    text = end.join([*lines, ""]) if last else end.join(lines)
    if encoding == "latin-1":
        text = text.replace("\u010a", "")
    content = (MARKS[encoding] + text).encode(CODECS.get(encoding, encoding))
    block, chunk, count = sizes
    chunks = (content[at : at + chunk] for at in range(0, len(content), chunk))
    found = line_blocks(utf8_chunks(chunks, encoding, "f"), block, max_line, count)
    assert reported(found, count) == expected(text.encode(), max_line)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    lines=LINES,
    bom=st.sampled_from([b"", BOM]),
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 25), st.integers(1, 4)),
    max_line=st.integers(1, 20),
    data=st.data(),
)
def test_numbers_in_parts_are_those_of_the_lines_of_the_file(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    bom: bytes,
    sizes: tuple[int, int, int],
    max_line: int,
    data: st.DataObject,
) -> None:
    content = bom + "\n".join(lines).encode()
    file = write(Path(tmp_path_factory.mktemp("lines")) / "a", content)
    places = data.draw(st.sets(st.integers(1, max(file.size - 1, 1)), max_size=3))
    whole: list[tuple[int, bytes]] = []
    long: list[tuple[int, bytes, int]] = []
    for span in pairwise([0, *sorted(place for place in places if place < file.size), file.size]):
        block, chunk, count = sizes
        part = FilePart(file.path, file.size, file.mtime_ns, *span)
        first, pieces = part_lines(PlannedFile(Fs(), part), chunk, block)
        found = reported(line_blocks(pieces, block, max_line, count, first), count)
        whole, long = whole + found[0], long + found[1]
    assert (whole, long) == expected(content, max_line)


@pytest.mark.parametrize("block", [1, 3, 50])
@settings(max_examples=30, deadline=None)
@given(data=st.binary(max_size=300), chunk=st.integers(1, 40))
def test_lines_of_any_bytes_are_those_of_the_file(block: int, data: bytes, chunk: int) -> None:
    data = data.replace(b"\x00", b"\n")
    chunks = (data[at : at + chunk] for at in range(0, len(data), chunk))
    assert reported(line_blocks(chunks, block, 10**6), len(data) + 1) == expected(data, 10**6)


@settings(max_examples=100, deadline=None)
@given(
    data=st.lists(st.sampled_from([b"", b"a", b"bcd", b"x" * 9]), max_size=30).map(b"\n".join),
    sizes=st.tuples(st.integers(1, 20), st.integers(1, 12)),
    cuts=st.tuples(st.integers(0, 100), st.integers(0, 100)),
)
def test_pieces_end_with_a_line_where_one_ends_near(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, sizes: tuple[int, int], cuts: tuple[int, int]
) -> None:
    file = write(Path(tmp_path_factory.mktemp("pieces")) / "a", data)
    begin, end = sorted(min(cut, len(data)) for cut in cuts)
    block, tail = sizes
    found = list(line_pieces(RawFile(Fs(), file), begin, end, block, tail))
    assert b"".join(found) == data[begin:end]
    for piece in found[:-1]:
        assert block < len(piece) <= block + tail
        assert piece.endswith(b"\n") or b"\n" not in piece[block:]


def test_a_piece_that_ends_with_a_line_is_not_copied() -> None:
    chunks = [b"a\n" * 4, b"b\n" * 4, b"c"]
    blocks = list(line_blocks(iter(chunks), block=8))
    assert [block.data for block in blocks] == chunks
    assert all(block.data is chunk for block, chunk in zip(blocks, chunks, strict=True))
