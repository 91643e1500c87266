"""A guard around decoding: a record that raises an exception is a bad row, and no neighbour is touched.

Decoders work on blocks. When one raises what nobody foresaw, all that it has noted of the block is taken back, and the
block is decoded anew in halves, until the records that raise it stand alone. What is no fault of a record goes through:
errors of ours, of the operating system, and of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from sparkhaven.ingest.bad_rows import BadRow, Rejects
from sparkhaven.ingest.values.refusals import Refusal, Value, attempted, unexpected
from sparkhaven.ingest.values.typed_rows import Ints, TypedRows, joined_rows
from sparkhaven.store.errors import FeedError

FAILED_BLOCKS = "failed_blocks"
"""Count of blocks that were decoded anew, record by record, because of an exception."""

Part = TypeVar("Part")
Item = TypeVar("Item")
ExactRows = tuple[Ints, list[Sequence[Value]]]


@dataclass(frozen=True, slots=True)
class GuardedRecords(Generic[Part]):
    """The records of a block: ``decode`` takes the ``part`` of a range, ``refused`` makes a bad row of one by index."""

    count: int
    part: Callable[[int, int], Part]
    decode: Callable[[Part], TypedRows]
    refused: Callable[[int, Refusal], BadRow]


def guarded_rows(records: GuardedRecords[Part], rejects: Rejects) -> TypedRows:
    """The good rows of a block. An exception that its records do not raise one by one goes through."""
    parts = [*_rows(records, 0, records.count, rejects)]
    return joined_rows(parts) if parts else records.decode(records.part(0, 0))


def _rows(records: GuardedRecords[Part], start: int, stop: int, rejects: Rejects) -> Iterator[TypedRows]:
    mark = rejects.mark()
    try:
        rows = records.decode(records.part(start, stop))
    except Exception as error:
        refusal = unexpected(error)
        if start == stop:
            raise
    else:
        rejects.settle()
        yield rows
        return
    rejects.undo(mark)
    if stop - start == 1:
        rejects.read += 1
        rejects.add_all([records.refused(start, refusal)])
        return
    if stop - start == records.count:
        rejects.others[FAILED_BLOCKS] += 1
    middle = (start + stop) // 2
    yield from _rows(records, start, middle, rejects)
    yield from _rows(records, middle, stop, rejects)


def tried(fast: Callable[[], Item], rejects: Rejects) -> Item | None:
    """What a fast pass over a block gives. None where it raises: then the exact pass has all of the block."""
    mark = rejects.mark()
    decoded = attempted(fast)
    if not isinstance(decoded, Refusal):
        rejects.settle()
        return decoded
    rejects.undo(mark)
    rejects.others[FAILED_BLOCKS] += 1
    return None


def exact_rows(outcomes: Iterable[tuple[int, Sequence[Value] | BadRow]], rejects: Rejects) -> ExactRows:
    """Indices and values of the rows that an exact pass takes; the others are rejected."""
    indices: list[int] = []
    values: list[Sequence[Value]] = []
    for index, outcome in outcomes:
        if isinstance(outcome, BadRow):
            rejects.add_all([outcome])
        else:
            indices.append(index)
            values.append(outcome)
    return np.array(indices, np.int64), values


@contextmanager
def guarded_file(file: str) -> Iterator[None]:
    """Turns an exception that is of a file as a whole into a FeedError that names it."""
    try:
        yield
    except Exception as error:
        raise FeedError(
            "feed file cannot be decoded",
            where=file,
            expected="a file that the decoder of its format reads, or an error that names what is wrong",
            found=unexpected(error).explanation,
            hint="move the file out of the feed and report this with it. Nothing of it was committed",
        ) from error
