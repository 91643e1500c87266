"""Key formulas: which writable partition a row goes to at merge, decided as a JVM would decide it.

A formula is parsed once and evaluated over distinct values with numpy; nothing is ever run as code. Nulls: in a text
join the four letters ``null``; in arithmetic the null value of the type, as plain Java sees it; the hash of a null is
0. ``abs`` of the smallest number is 0.

Java's text and integers are in numpy: strings as UTF-16 units, ``String.hashCode``, wrapping ``/`` and ``%``. Their
functions work on whole arrays; an array of one row is a constant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.errors import SchemaMismatchError, SchemaParseError
from sparkhaven.store.expressions.formula.parsing import FormulaError, FormulaNode, Type, parse
from sparkhaven.store.expressions.predicate.nodes import columns_of
from sparkhaven.store.types.codings.coding import JavaValues
from sparkhaven.store.types.datatypes import DataType
from sparkhaven.store.types.model import TableSchema

Ints = npt.NDArray[np.signedinteger[Any]]


_DIGITS = re.compile(r"[0-9]+\Z")
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?!\d)", re.ASCII)
_CONSTANT = np.dtype(np.int32)


@dataclass(frozen=True, slots=True)
class Text:
    """Strings as UTF-16 units: row ``r`` is ``units[offsets[r]:offsets[r + 1]]``."""

    units: npt.NDArray[np.uint16]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @staticmethod
    def of(strings: Sequence[str]) -> Text:
        """From Python strings; a lone surrogate is one unit, as in Java."""
        encoded = [s.encode("utf-16-le", "surrogatepass") for s in strings]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum(np.fromiter((len(e) // 2 for e in encoded), np.int64, len(encoded)), out=offsets[1:])
        return Text(np.frombuffer(b"".join(encoded), np.dtype("<u2")).astype(np.uint16), offsets)

    def to_list(self) -> list[str]:
        data, ends = self.units.astype("<u2").tobytes(), (self.offsets * 2).tolist()
        return [data[a:b].decode("utf-16-le", "surrogatepass") for a, b in pairwise(ends)]

    def _repeated(self, rows: int) -> Text:
        if len(self) == rows:
            return self
        return Text(np.tile(self.units, rows), np.arange(rows + 1, dtype=np.int64) * len(self.units))

    def __add__(self, other: Text) -> Text:
        rows = max(len(self), len(other)) if len(self) and len(other) else 0
        left, right = self._repeated(rows), other._repeated(rows)
        first, second = np.diff(left.offsets), np.diff(right.offsets)
        offsets = np.zeros(rows + 1, np.int64)
        np.cumsum(first + second, out=offsets[1:])
        units = np.empty(int(offsets[-1]), np.uint16)
        units[np.repeat(offsets[:-1] - left.offsets[:-1], first) + np.arange(len(left.units))] = left.units
        shift = offsets[:-1] + first - right.offsets[:-1]
        units[np.repeat(shift, second) + np.arange(len(right.units))] = right.units
        return Text(units, offsets)

    def hash_code(self) -> npt.NDArray[np.int32]:
        """``String.hashCode`` of every row: h = 31 * h + unit over UTF-16 units, 32 bits, start 0."""
        lengths = np.diff(self.offsets)
        powers = np.full(int(lengths.max(initial=0)) + 1, 31, np.uint32)
        powers[0] = 1
        np.cumprod(powers, out=powers, dtype=np.uint32)
        from_end = np.repeat(self.offsets[1:], lengths) - 1 - np.arange(len(self.units))
        sums = np.zeros(len(self.units) + 1, np.uint32)
        np.cumsum(self.units * powers[from_end], out=sums[1:], dtype=np.uint32)
        return (sums[self.offsets[1:]] - sums[self.offsets[:-1]]).view(np.int32)


def divide(left: Ints, right: Ints) -> Ints:
    """Java ``/``: toward zero, wrapping; the caller has refused zeros in ``right``."""
    wide, by = left.astype(np.int64), right.astype(np.int64)
    other = np.where(by == -1, 1, by)  # -2^63 / -1 overflows in hardware
    quotient = wide // other
    quotient += (quotient * other != wide) & ((wide ^ other) < 0)
    result = np.where(by == -1, 0 - wide, quotient)
    return result.astype(np.result_type(left, right))


def remainder(left: Ints, right: Ints) -> Ints:
    """Java ``%``: sign of the dividend; the caller has refused zeros in ``right``."""
    other = np.where(right == -1, 1, right).astype(np.int64)
    return np.fmod(left.astype(np.int64), other).astype(np.result_type(left, right))


def absolute(values: Ints) -> Ints:
    """``abs`` with the smallest number taken as 0, so that it is never negative."""
    return np.where(values == np.iinfo(values.dtype).min, 0, np.abs(values)).astype(values.dtype)


def parse_formula(text: str, schema: TableSchema) -> Formula:
    """Parses a key formula against the columns of a table.

    Raises SchemaParseError with code E121, E122 or E123; ``found`` has the position of the character.
    """
    try:
        node, ungrouped = parse(text, schema)
    except FormulaError as error:
        raise SchemaParseError(
            f"{error.code}: key formula of {schema.full_name} cannot be used",
            where=f"keyFormula, character {error.character}",
            expected=error.expected,
            found=f"{error.found} at character {error.character} of the formula",
            hint=error.hint or "see the grammar of key formulas in the manual",
            code=error.code,
        ) from None
    return Formula(text, node, {c.name: c.type for c in schema.columns}, ungrouped)


def sort_partitions(names: Sequence[str]) -> list[str]:
    """The partition array: all-digit names first, by number, the rest by code point."""
    numbers = sorted((n for n in names if _DIGITS.match(n)), key=lambda n: (int(n), n))
    return [*numbers, *sorted(n for n in names if not _DIGITS.match(n))]


def day_of_year(value: str) -> int:
    """Day of the year of a column partition that starts with an ISO date, from 1; else 0."""
    match = _ISO.match(value)
    if match is None:
        return 0
    try:
        return date.fromisoformat(match[0]).timetuple().tm_yday
    except ValueError:
        return 0


class _BadRow(Exception):
    """A distinct combination of values that has no result."""

    def __init__(self, entry: int, problem: str, value: str) -> None:
        super().__init__(problem)
        self.entry, self.problem, self.found = entry, problem, value


@dataclass(frozen=True, slots=True)
class Formula:
    """A parsed key formula. ``ungrouped``: by grouping column, but the table has none (W124)."""

    text: str
    node: FormulaNode
    types: Mapping[str, DataType]
    ungrouped: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return columns_of(self.node)

    def assign(
        self,
        namespace: str,
        table: str,
        value: str,
        columns: Mapping[str, pa.Array],
        partitions: Sequence[str],
        *,
        rows: int | None = None,
    ) -> npt.NDArray[np.int32]:
        """For every row its index in ``sort_partitions(partitions)``.

        ``value`` is the column partition; ``columns`` holds at least the columns of the formula, all of one length.
        ``rows`` is needed only when ``columns`` is empty. Raises SchemaParseError E123 with row, index and N.
        """
        names = self.columns
        missing = [name for name in names if name not in columns]
        if missing or not partitions:
            raise SchemaMismatchError(
                f"key formula of {namespace}.{table} cannot be evaluated",
                expected=f"columns {', '.join(names) or '(none)'} and at least one writable partition",
                found=f"no column {missing[0]}" if missing else "no writable partition",
                hint="read the column as well" if missing else "give a partition",
            )
        count = len(next(iter(columns.values()))) if columns else int(rows or 0)
        if count == 0:
            return np.zeros(0, np.int32)
        codes, distinct = _distinct({name: columns[name] for name in names}, count)
        ordered = sort_partitions(partitions)
        run = _Evaluation(Text.of([f"{namespace}.{table}"]), day_of_year(value), ordered, distinct, self.types)
        try:
            chosen = run.choose(self.node)
        except _BadRow as bad:
            row = int(np.argmax(codes == bad.entry)) if len(codes) else 0
            raise SchemaParseError(
                f"E123: {bad.problem}",
                where=f"{namespace}.{table}, date {value}, row {row}",
                expected=f"one of {len(ordered)} partitions: {', '.join(ordered[:20])}",
                found=bad.found,
                hint="correct keyFormula. Usual is __WRITABLE_PARTITIONS__[abs(...) % __NUM_WRITABLE_PARTITIONS__]",
                code="E123",
                row=row,
                n=len(ordered),
            ) from None
        if len(chosen) == 1:
            return np.full(count, chosen[0], np.int32)
        return chosen[codes]


def _distinct(columns: Mapping[str, pa.Array], rows: int) -> tuple[npt.NDArray[np.int64], dict[str, pa.Array]]:
    """Number of the distinct combination of each row, and the values of each combination by column."""
    codes = np.zeros(rows, np.int64)
    parts: list[tuple[str, pa.Array, npt.NDArray[np.int64]]] = []
    for name, array in columns.items():
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        encoded = array if isinstance(array, pa.DictionaryArray) else array.dictionary_encode()
        values = pa.concat_arrays([encoded.dictionary, pa.nulls(1, encoded.dictionary.type)])
        own = encoded.indices.cast(pa.int64()).fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        codes, combined = _dense(codes * len(values) + own, len(values) * (int(codes.max()) + 1))
        parts = [(n, v, numbers[combined // len(values)]) for n, v, numbers in parts]
        parts.append((name, values, combined % len(values)))
    return codes, {name: values.take(pa.array(numbers)) for name, values, numbers in parts}


def _dense(keys: npt.NDArray[np.int64], bound: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    if bound > 4 * len(keys) + 1024:
        used, codes = np.unique(keys, return_inverse=True)
        return codes.astype(np.int64), used
    present = np.zeros(bound, np.bool_)
    present[keys] = True
    used = np.flatnonzero(present)
    renumbered = np.cumsum(present, dtype=np.int64) - 1
    return renumbered[keys], used.astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """Values that a formula sees; every array has one entry per distinct combination, or one for a constant."""

    table: Text
    day: int
    partitions: list[str]
    columns: Mapping[str, pa.Array]
    types: Mapping[str, DataType]

    def choose(self, node: FormulaNode) -> npt.NDArray[np.int32]:
        if node.op == "index":
            return self._index(node)
        position = {name: index for index, name in enumerate(self.partitions)}
        names = self.text(node).to_list()
        for entry, name in enumerate(names):
            if name not in position:
                raise _BadRow(entry, "key formula names no member of the partition array", repr(name))
        return np.array([position[name] for name in names], np.int32)

    def _index(self, node: FormulaNode) -> npt.NDArray[np.int32]:
        index = self.number(node.parts[0])
        outside = (index < 0) | (index >= len(self.partitions))
        if outside.any():
            entry = int(np.argmax(outside))
            value = f"index {int(index[entry])} of {len(self.partitions)}"
            raise _BadRow(entry, "key formula gives an index outside the partition array", value)
        return index.astype(np.int32)

    def text(self, node: FormulaNode) -> Text:
        """A node as text, as Java joins it."""
        if node.op == "table":
            return self.table
        if node.op == "text":
            return Text.of([str(node.value)])
        if node.op == "join":
            return self.text(node.parts[0]) + self.text(node.parts[1])
        if node.op == "index":
            names = self.partitions
            return Text.of([names[i] for i in self._index(node).tolist()])
        if node.op == "column":
            array = self.columns[str(node.value)]
            if node.type is Type.OBJECT:
                texts = self._java_values(node).java_texts(array)
                return Text.of(["null" if text is None else text for text in texts])
            if node.type is Type.CHAR:
                return Text.of(["null" if v is None else chr(v) for v in array.to_pylist()])
            return Text.of(array.cast(pa.string()).fill_null("null").to_pylist())
        return Text.of([str(v) for v in self.number(node).tolist()])

    def number(self, node: FormulaNode) -> Ints:
        """A node as int32 or int64."""
        constants = {"int": node.value, "day": self.day, "count": len(self.partitions)}
        if node.op in constants:
            return np.array([constants[node.op]], _CONSTANT)
        if node.op == "column":
            name = str(node.value)
            wide = np.dtype(np.int64) if node.type is Type.LONG else _CONSTANT
            filled = self.columns[name].fill_null(self.types[name].null)
            numbers: Ints = filled.to_numpy(zero_copy_only=False).astype(wide)
            return numbers
        if node.op == "hash":
            return self._hash(node.parts[0])
        parts = [self.number(part) for part in node.parts]
        if node.op == "neg":
            return 0 - parts[0]
        if node.op == "abs":
            return absolute(parts[0])
        left, right = parts
        if node.op in "+-*":
            return {"+": np.add, "-": np.subtract, "*": np.multiply}[node.op](left, right)
        if (right == 0).any():
            zero = np.broadcast_to(right == 0, np.broadcast_shapes(left.shape, right.shape))
            raise _BadRow(int(np.argmax(zero)), "key formula divides by zero", f"{node.op} 0")
        return divide(left, right) if node.op == "/" else remainder(left, right)

    def _hash(self, node: FormulaNode) -> Ints:
        if node.op != "column":
            return self.text(node).hash_code()
        array = self.columns[str(node.value)]
        text = node.type is Type.TEXT
        codes = self.text(node).hash_code() if text else self._java_values(node).java_hashes(array)
        return np.where(array.is_null().to_numpy(zero_copy_only=False), 0, codes)

    def _java_values(self, node: FormulaNode) -> JavaValues:
        coding = self.types[str(node.value)].coding
        assert isinstance(coding, JavaValues)  # noqa: S101
        return coding
