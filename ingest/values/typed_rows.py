"""What comes of the values of one block: typed rows, or why a value cannot be stored.

Rows from the fast and the exact path come together in file order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.ingest.spec import Target
from sparkhaven.store.errors import SparkhavenError, ours
from sparkhaven.store.quarantine.rejected_rows import Reason

MOST_WORDS = 300  # characters of an exception
Decoded = TypeVar("Decoded")
Value = int | float | str | bool | None
ENVIRONMENT = (SparkhavenError, OSError, ImportError)
"""Exceptions that are no fault of a record: errors of ours, of the operating system, of an installation."""
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a value cannot be stored, what would have been accepted, and what is special about this one."""

    reason: Reason
    expected: str
    detail: str = ""

    @property
    def explanation(self) -> str:
        """The reason and the detail, for people."""
        return self.reason.explained(self.detail)


def unexpected(error: Exception) -> Refusal:
    """Why a record is refused whose decoding raised an exception. Raises it again if it is no fault of the record."""
    if isinstance(error, ENVIRONMENT) or ours(error) is not None:
        raise error
    words = " ".join(f"{type(error).__name__}: {error}".split())
    expected = "a record that the decoder reads. Please report this record"
    return Refusal(Reason.DECODER_FAILED, expected, words[:MOST_WORDS])


def not_utf8(error: UnicodeDecodeError) -> Refusal:
    """Why bytes are refused that are no text."""
    return Refusal(Reason.NOT_UTF8, "text in UTF-8", f"at byte {error.start}")


def attempted(make: Callable[..., Decoded], *arguments: Any) -> Decoded | Refusal:
    """What ``make`` gives, or why a record is refused for which it raises an exception."""
    try:
        return make(*arguments)
    except Exception as error:  # noqa: BLE001 whatever a record raises is a bad row
        return unexpected(error)


@dataclass(frozen=True, slots=True)
class OutOfRange(Refusal):
    """An instant that is none because it lies too far away: after the last one (``above``), or before the first."""

    above: bool = False


def out_of_range(above: bool) -> OutOfRange:
    """The refusal of an instant after the last one (``above``), or before the first."""
    expected = "1677-09-21T00:12:43.145224193Z to 2262-04-11T23:47:16.854775807Z"
    return OutOfRange(Reason.OUTSIDE_RANGE, expected, above=above)


@dataclass(frozen=True, slots=True)
class TypedRows:
    """Good rows in file order: one array for each target, and the line number of each row.

    An array has the column's type; texts may be a dictionary of it, whose entries need not all have rows.
    """

    columns: tuple[pa.Array, ...]
    numbers: Ints

    def __len__(self) -> int:
        return len(self.numbers)

    def part(self, start: int, stop: int) -> TypedRows:
        """Some rows that follow each other."""
        return TypedRows(tuple(column.slice(start, stop - start) for column in self.columns), self.numbers[start:stop])


def joined_rows(parts: Sequence[TypedRows]) -> TypedRows:
    """Rows of one or more parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    columns = (
        pa.concat_arrays([*map(decoded, arrays)]) for arrays in zip(*(part.columns for part in parts), strict=True)
    )
    return TypedRows(tuple(columns), np.concatenate([part.numbers for part in parts]))


def left_over(count: int, taken: Ints) -> Ints:
    """The indices below ``count`` that are not among ``taken``, which ascend."""
    if len(taken) == count:
        return np.empty(0, np.int64)
    left = np.ones(count, np.bool_)
    left[taken] = False
    return np.flatnonzero(left)


def no_columns(targets: Sequence[Target]) -> list[pa.Array]:
    """A column without rows for each target."""
    return [pa.nulls(0, target.column.type.arrow) for target in targets]


def decoded(array: pa.Array) -> pa.Array:
    """The array without a dictionary."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def typed_array(values: Sequence[Value], target: Target) -> pa.Array:
    """Values of the exact path as an array of the column's type."""
    arrow = target.column.type.arrow
    if pa.types.is_timestamp(arrow):
        return pa.array(values, pa.int64()).view(arrow)
    return pa.array(values, arrow)


def merge_rows(
    numbers: Ints,
    fast: Ints,
    columns: Sequence[pa.Array],
    exact: Ints,
    values: Sequence[Sequence[Value]],
    targets: Sequence[Target],
) -> TypedRows:
    """Brings two kinds of rows into file order.

    ``fast`` and ``exact`` are indices into ``numbers``, both ascending and without a common one; a ``columns`` array
    has one entry for each of ``fast``, and ``values`` one sequence of column values for each of ``exact``.
    """
    if not len(exact):
        return TypedRows(tuple(columns), numbers if len(fast) == len(numbers) else numbers[fast])
    both = np.concatenate([fast, exact])
    order = np.argsort(both, kind="stable")
    file_order = pa.array(order)
    merged = []
    for column_index, target in enumerate(targets):
        patch = typed_array([row[column_index] for row in values], target)
        if len(fast):
            column = columns[column_index]
            both_kinds = [column, patch.dictionary_encode() if pa.types.is_dictionary(column.type) else patch]
            patch = pa.concat_arrays(both_kinds).take(file_order)
        merged.append(patch)
    return TypedRows(tuple(merged), numbers[both[order]])
