"""Bytes to blocks of lines, in bounded memory, with physical line numbers that start at 1.

Lines end at a line feed; a carriage return before it belongs to the line end. A byte order mark at the start of
the file is dropped. Blank lines are left to the decoders, which skip and do not count them.

Also here: where the lines of a piece of a file begin and end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.native.library import core
from sparkhaven.store.source_rows import SourceRows

Ends = npt.NDArray[np.int32]
_LINE_FEED = 10
_SAMPLE = 1 << 16  # bytes whose lines tell how much room all lines are likely to need
_SHORT = 16  # bytes: room for lines that are shorter is made once they are counted


def line_ends(data: bytes) -> Ends:
    """0, then the end of each line behind its line feed; the last line needs none. Less than 2 GiB."""
    native = core()
    octets = np.frombuffer(data, np.uint8)
    address, size = octets.ctypes.data, len(octets)
    sample = min(size, _SAMPLE)
    of_sample = native.sh_line_ends(address, sample, None, 0)
    room = min(of_sample * (size + sample) // max(sample, 1), of_sample + size // _SHORT)
    while True:
        ends = np.empty(room + 2, np.int32)
        count = native.sh_line_ends(address, size, ends.ctypes.data + ends.itemsize, room)
        if count <= room:
            break
        room = count
    ends[0] = 0
    if size > 0 and data[-1] != _LINE_FEED:
        count += 1
        ends[count] = size
    return ends[: count + 1]


BLOCK = 16 << 20
MAX_LINE = 16 << 20
MAX_LINES = 1 << 18  # lines of a block: what is made of short lines takes many times their bytes
HEAD = 1 << 20  # bytes kept of a line that is too long
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line that is not read whole: its number, first bytes, and bytes in all without its line feed."""

    number: int
    head: bytes
    size: int


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Whole lines: line i is ``data[ends[i]:ends[i + 1]]`` (``ends`` starts at 0), its number ``numbers[i]``.

    ``too_long`` are the lines above ``MAX_LINE``, which are not in ``data``. ``framed`` records are not lines but
    messages, numbered by offset: each is followed by one line feed that is not part of it, and whatever it holds, be it
    nothing or further line feeds, it is one record. ``chosen``: lines were left out, and with each line all of its
    record.
    """

    data: bytes
    ends: npt.NDArray[np.int32]
    numbers: npt.NDArray[np.int64]
    too_long: tuple[LongLine, ...] = ()
    framed: bool = False
    chosen: bool = False

    def __len__(self) -> int:
        return len(self.numbers)

    def line(self, index: int) -> bytes:
        """One line without its end."""
        if self.framed:
            return self.data[self.ends[index] : self.ends[index + 1] - 1]
        return self.data[self.ends[index] : self.ends[index + 1]].rstrip(b"\r\n")

    def lines(self, start: int, stop: int) -> bytes:
        """Lines of one record with the line ends between them, without those at its end, also where it is framed."""
        return self.data[self.ends[start] : self.ends[stop]].rstrip(b"\r\n")

    @classmethod
    def empty(cls) -> LineBlock:
        return cls(b"", np.zeros(1, np.int32), np.zeros(0, np.int64))

    def utf8(self) -> npt.NDArray[np.bool_] | None:
        """Which lines are UTF-8; None if all are."""
        try:
            self.data.decode("utf-8")
        except UnicodeDecodeError:
            return np.fromiter((is_utf8(self.line(i)) for i in range(len(self))), np.bool_, len(self))
        return None

    def line_of(self, number: int) -> bytes:
        """The line with a physical number, without its end."""
        return self.line(int(np.searchsorted(self.numbers, number)))

    def rest(self, used: int) -> LineBlock:
        """The lines from index ``used`` on, and those that were too long behind the first of them."""
        too_long = tuple(line for line in self.too_long if used < len(self) and line.number > self.numbers[used])
        return _portion(self, used, len(self), too_long)

    def after(self, number: int) -> LineBlock:
        """The lines behind one with this physical number."""
        rest = self.rest(int(np.searchsorted(self.numbers, number, side="right")))
        return replace(rest, too_long=tuple(line for line in self.too_long if line.number > number))

    def where(self, wanted: npt.NDArray[np.bool_]) -> LineBlock:
        """The lines that are wanted, without those that were too long. No record may be wanted in part."""
        if wanted.all():
            return self.part(0, len(self))
        lines = self.array().filter(pa.array(wanted))
        _, ends, data = lines.buffers()
        offsets = np.frombuffer(ends, np.int32, len(lines) + 1, 4 * lines.offset)
        content = b"" if data is None else data[int(offsets[0]) : int(offsets[-1])].to_pybytes()
        return LineBlock(content, offsets - offsets[0], self.numbers[wanted], framed=self.framed, chosen=True)

    def part(self, start: int, stop: int) -> LineBlock:
        """The lines from one index to another, without those that were too long."""
        if (start, stop) == (0, len(self)):
            return replace(self, too_long=()) if self.too_long else self
        return _portion(self, start, stop, ())

    def before(self, other: LineBlock) -> LineBlock:
        """These lines followed by those of another block."""
        if not len(self):
            return other
        ends = np.concatenate([self.ends, other.ends[1:] + self.ends[-1]])
        numbers = np.concatenate([self.numbers, other.numbers])
        return LineBlock(self.data + other.data, ends, numbers, self.too_long + other.too_long)

    def array(self) -> pa.BinaryArray:
        """All lines with their ends, without copying."""
        buffers = [None, pa.py_buffer(self.ends), pa.py_buffer(self.data)]
        return pa.BinaryArray.from_buffers(pa.binary(), len(self), buffers)


def is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def framed_block(payloads: Sequence[bytes | None], numbers: npt.NDArray[np.int64]) -> LineBlock:
    """Payloads of messages as the records of a block. All of them together must be shorter than 2 GiB.

    TypeError if one is None: nobody has to look at each of them to know that none is.
    """
    ends = np.zeros(len(payloads) + 1, np.int32)
    data = b"\n".join([*payloads, b""])  # type: ignore[list-item]
    np.cumsum(np.fromiter(map(len, payloads), np.int32, len(payloads)) + 1, out=ends[1:])  # type: ignore[arg-type]
    return LineBlock(data, ends, numbers, framed=True)


def line_blocks(
    chunks: Iterable[bytes], block: int = BLOCK, max_line: int = MAX_LINE, lines: int = MAX_LINES, first: int = 1
) -> Iterator[LineBlock]:
    """Groups the lines of a file into blocks of about ``block`` bytes and at most ``lines`` lines.

    The last line needs no line feed. ``first`` is the number of the first line; a byte order mark only begins a file.
    A line of more than ``max_line`` bytes is too long, wherever chunks and blocks end; it stands before the lines of
    its block.
    """
    pieces: list[bytes] = []
    size = 0
    number = first
    skipping: LongLine | None = None
    too_long: list[LongLine] = []
    for chunk in _without_bom(chunks) if first == 1 else chunks:
        piece = chunk
        if skipping is not None:
            end = piece.find(b"\n")
            skipping = replace(skipping, size=skipping.size + (len(piece) if end < 0 else end))
            if end < 0:
                continue
            too_long.append(skipping)
            skipping, piece, number = None, piece[end + 1 :], number + 1
        pieces.append(piece)
        size += len(piece)
        if size < block:
            continue
        whole, rest = _cut(pieces)
        if whole or too_long:
            line_block = _block(whole, number, tuple(too_long))
            yield from _portions(line_block, lines, max_line)
            number += len(line_block)
            too_long.clear()
        pieces, size = [rest] if rest else [], len(rest)
        if size > max_line:
            skipping = LongLine(number, pieces[0][: min(HEAD, max_line)], size)
            pieces, size = [], 0
    if skipping is not None:
        too_long.append(skipping)
    if size or too_long:
        yield from _portions(_block(b"".join(pieces), number, tuple(too_long)), lines, max_line)


class LineCount:
    """Counts the lines of a file from the ``first`` on, each once however often it is read.

    It goes by their numbers, so a line that is lost on the way to a decoder is counted.
    """

    def __init__(self, first: int, sources: Iterable[SourceRows]) -> None:
        self._last, self._sources = first - 1, tuple(sources)
        self._add(0)

    def of(self, blocks: Iterable[LineBlock]) -> Iterator[LineBlock]:
        """The blocks, as they are."""
        for block in blocks:
            last = max([*block.numbers[-1:].tolist(), *(line.number for line in block.too_long), self._last])
            self._add(last - self._last)
            self._last = last
            yield block

    def _add(self, lines: int) -> None:
        for source in self._sources:
            source.count(lines)


def _cut(pieces: list[bytes]) -> tuple[bytes, bytes]:
    """The pieces up to their last line feed, and what is behind it. What is in them is copied once."""
    last = pieces[-1]
    cut = last.rfind(b"\n") + 1
    if cut and len(pieces) == 1 and cut == len(last):
        return last, b""  # not copied
    if cut:
        return b"".join([*pieces[:-1], memoryview(last)[:cut]]), last[cut:]
    data = b"".join(pieces)
    cut = data.rfind(b"\n") + 1
    return data[:cut], data[cut:]


def _block(data: bytes, number: int, too_long: tuple[LongLine, ...]) -> LineBlock:
    ends = line_ends(data)
    return LineBlock(data, ends, np.arange(number, number + len(ends) - 1, dtype=np.int64), too_long)


def _portions(block: LineBlock, lines: int, max_line: int) -> Iterator[LineBlock]:
    """A block in parts of so many lines; what is too long stands before the lines of its part."""
    long = _too_long(block, max_line)
    if not long and len(block) <= lines:
        yield block
        return
    begin, before = 0, block.too_long
    for index in [*long, len(block)]:
        for start in range(begin, index, lines):
            yield _portion(block, start, min(start + lines, index), before)
            before = ()
        if index < len(block):
            line = block.data[block.ends[index] : block.ends[index + 1]].removesuffix(b"\n")
            before = (*before, LongLine(int(block.numbers[index]), line[: min(HEAD, max_line)], len(line)))
        begin = index + 1
    if before:
        yield replace(LineBlock.empty(), too_long=before)


def _too_long(block: LineBlock, max_line: int) -> list[int]:
    if len(block.data) <= max_line:
        return []
    sizes = np.diff(block.ends) - 1
    sizes[-1] += not block.data.endswith(b"\n")
    indices: list[int] = np.flatnonzero(sizes > max_line).tolist()
    return indices


def _portion(block: LineBlock, start: int, stop: int, too_long: tuple[LongLine, ...]) -> LineBlock:
    first, last = int(block.ends[start]), int(block.ends[stop])
    ends = block.ends[start : stop + 1] - first
    return LineBlock(block.data[first:last], ends, block.numbers[start:stop], too_long, block.framed, block.chosen)


def _without_bom(chunks: Iterable[bytes]) -> Iterator[bytes]:
    head = b""
    waiting = True
    for chunk in chunks:
        if not waiting:
            yield chunk
            continue
        head += chunk
        if len(head) >= len(BOM):
            waiting = False
            yield head.removeprefix(BOM)
    if waiting:
        yield head.removeprefix(BOM)
