"""Key formulas: which writable partition a row goes to at merge, decided as a JVM would decide it.

A formula is parsed once and evaluated over distinct values with numpy; nothing
is ever run as code. Nulls: in a text join the four letters ``null``; in arithmetic the null value of the type, as plain
Java sees it; the hash of a null is 0. ``abs`` of the smallest number is 0.

Key formulas as trees: tokens, grammar and static types. Nothing outside the grammar is accepted.

::

    formula  = "${autobalance_single}" | "__PARTITION_AUTOBALANCE_SINGLE__"
             | "${autobalance_by_first_grouping_column}" | sum
    sum      = product { ("+" | "-") product }
    product  = unary { ("*" | "/" | "%") unary }
    unary    = ("+" | "-") unary | postfix
    postfix  = primary { ".hashCode()" | "[" sum "]" }
    primary  = integer | "text" | `text` | column | token | "(" sum ")" | ("abs" | "Math.abs") "(" sum ")"

Types are those of Java: int, long, char, boolean, text, and objects: dates, times of day, decimals of one width. ``+``
with a text joins; a text and an object have a hash; the array can only be indexed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.errors import SchemaMismatchError, SchemaParseError, meant
from sparkhaven.store.expressions.formula.javatext import Ints, Text, absolute, divide, remainder
from sparkhaven.store.expressions.tokens import Cursor, Token, columns_of, tokens
from sparkhaven.store.types.codings.coding import JavaValues
from sparkhaven.store.types.datatypes import DataType
from sparkhaven.store.types.model import Column, Kind, TableSchema

MAX_DEPTH = 50
SINGLE = ("${autobalance_single}", "__PARTITION_AUTOBALANCE_SINGLE__")
BY_GROUP = "${autobalance_by_first_grouping_column}"
_ARRAY, _COUNT, _TABLE, _DAY = "__WRITABLE_PARTITIONS__", "__NUM_WRITABLE_PARTITIONS__", "__NS_TN__", "__DAY_OF_YEAR__"
_TOKENS = (_ARRAY, _COUNT, _TABLE, _DAY, *SINGLE, BY_GROUP)
_LEXER = re.compile(
    r"""(?P<space>\s+)|(?P<number>\d+)(?![\w.])|(?P<text>"(?:[^"\\]|\\.)*"|`[^`]*`)|(?P<macro>\$\{\w*\})"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<sign>[-+*/%()\[\].])"""
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)


class Type(Enum):
    INT = "int"
    LONG = "long"
    CHAR = "char"
    BOOLEAN = "boolean"
    TEXT = "text"
    OBJECT = "an object"
    ARRAY = "the partition array"

    @property
    def number(self) -> bool:
        """Whether arithmetic takes it."""
        return self in (Type.INT, Type.LONG, Type.CHAR)


COLUMN_TYPES = {
    "Boolean": Type.BOOLEAN,
    "byte": Type.INT,
    "short": Type.INT,
    "int": Type.INT,
    "long": Type.LONG,
    "char": Type.CHAR,
    "String": Type.TEXT,
}


@dataclass(frozen=True, slots=True)
class FormulaNode:
    """One operation on its parts. ``value`` is the constant, or the name of a column."""

    op: str  # int text column table day count array index neg + - * / % join abs hash
    type: Type
    parts: tuple[FormulaNode, ...] = field(default=())
    value: int | str = 0


class FormulaError(Exception):
    """What is wrong in a formula, and at which character (from 1)."""

    def __init__(self, code: str, character: int, expected: str, found: str, hint: str | None = None) -> None:
        super().__init__(found)
        self.code, self.character, self.expected, self.found, self.hint = code, character, expected, found, hint


def parse(text: str, schema: TableSchema) -> tuple[FormulaNode, bool]:
    """The tree of a formula, and whether it is by-group without a grouping column. Raises FormulaError."""
    bare = text.strip()
    if bare in SINGLE:
        return _balanced(None), False
    if bare == BY_GROUP:
        if not schema.grouping:
            return _balanced(None), True
        return _balanced(_column(schema.grouping[0], 1)), False
    parser = _Parser(tokens(text, _LEXER, _refused), {c.name: c for c in schema.columns})
    node = parser.sum(0)
    if parser.here.kind != "end":
        raise FormulaError("E121", parser.here.character, "an operator or the end", repr(parser.here.text))
    if node.type is not Type.TEXT:
        hint = f"write {_ARRAY}[abs(...) % {_COUNT}]"
        raise FormulaError("E123", 1, "the name of a partition", f"a result of type {node.type.value}", hint)
    return node, False


def _refused(character: int, sign: str) -> FormulaError:
    return FormulaError("E121", character, "a number, text, column, token or one of + - * / % ( ) [ ]", repr(sign))


def _balanced(group: FormulaNode | None) -> FormulaNode:
    """``array[abs((table + text(group)).hashCode() + day) % count]``."""
    table = FormulaNode("table", Type.TEXT)
    key = table if group is None else FormulaNode("join", Type.TEXT, (table, group))
    total = FormulaNode("+", Type.INT, (FormulaNode("hash", Type.INT, (key,)), FormulaNode("day", Type.INT)))
    index = FormulaNode("%", Type.INT, (FormulaNode("abs", Type.INT, (total,)), FormulaNode("count", Type.INT)))
    return FormulaNode("index", Type.TEXT, (index,))


def _column(column: Column, character: int) -> FormulaNode:
    key_type = Type.OBJECT if isinstance(column.type.coding, JavaValues) else COLUMN_TYPES.get(column.type.name)
    if column.kind is Kind.PARTITIONING or key_type is None:
        kind = "the partitioning column" if column.kind is Kind.PARTITIONING else f"of type {column.type.name}"
        raise FormulaError(
            "E122",
            character,
            "a column that is not partitioning, of type String, Boolean, char, byte, short, int, long, LocalDate, "
            "LocalTime, or a BigDecimal or BigInteger with precision",
            f"{column.name}, {kind}",
            "use another column, or __DAY_OF_YEAR__ for the day of the year",
        )
    return FormulaNode("column", key_type, (), column.name)


class _Parser(Cursor):
    """Recursive descent; the depth is limited, so no input can exhaust the stack."""

    def __init__(self, parsed: list[Token], columns: Mapping[str, Column]) -> None:
        super().__init__(parsed, lambda *parts: FormulaError("E121", *parts))
        self.columns = columns

    def sum(self, depth: int) -> FormulaNode:
        if depth > MAX_DEPTH:
            raise FormulaError("E121", self.here.character, f"at most {MAX_DEPTH} levels", "a deeper formula")
        node = self.product(depth)
        while token := self.take("+", "-"):
            right = self.product(depth)
            if token.text == "+" and Type.TEXT in (node.type, right.type):
                if Type.ARRAY in (node.type, right.type):
                    raise FormulaError("E121", token.character, "texts, numbers, columns", Type.ARRAY.value, "index it")
                node = FormulaNode("join", Type.TEXT, (node, right))
            else:
                node = self.arithmetic(token, node, right)
        return node

    def product(self, depth: int) -> FormulaNode:
        node = self.unary(depth)
        while token := self.take("*", "/", "%"):
            node = self.arithmetic(token, node, self.unary(depth))
        return node

    def arithmetic(self, token: Token, *parts: FormulaNode) -> FormulaNode:
        for part in parts:
            if not part.type.number:
                raise FormulaError("E121", token.character, f"numbers for {token.text}", part.type.value)
        wide = any(part.type is Type.LONG for part in parts)
        op = token.text if len(parts) == 2 else "neg"
        return FormulaNode(op, Type.LONG if wide else Type.INT, parts)

    def unary(self, depth: int) -> FormulaNode:
        signs: list[Token] = []
        while token := self.take("+", "-"):
            signs.append(token)
        smallest = self.here.kind == "number" and int(self.here.text) == 2**31
        if smallest and signs and signs[-1].text == "-":
            self.position += 1
            signs.pop()
            node = FormulaNode("int", Type.INT, (), -(2**31))
        else:
            node = self.postfix(depth)
        for token in reversed(signs):
            checked = self.arithmetic(token, node)
            node = (
                checked if token.text == "-" else FormulaNode("+", checked.type, (node, FormulaNode("int", Type.INT)))
            )
        return node

    def postfix(self, depth: int) -> FormulaNode:
        node = self.primary(depth)
        while True:
            start = self.here.character
            if self.take("."):
                self.need("hashCode")
                self.need("(")
                self.need(")")
                if node.type not in (Type.TEXT, Type.OBJECT):
                    expected = "a text or an object before .hashCode()"
                    raise FormulaError("E121", start, expected, node.type.value, 'join it with ""')
                node = FormulaNode("hash", Type.INT, (node,))
            elif self.take("["):
                index = self.sum(depth + 1)
                self.need("]")
                if node.type is not Type.ARRAY or index.type not in (Type.INT, Type.CHAR):
                    types = f"{node.type.value} indexed by {index.type.value}"
                    raise FormulaError("E121", start, f"{_ARRAY}[int]", types)
                node = FormulaNode("index", Type.TEXT, (index,))
            else:
                return node

    def primary(self, depth: int) -> FormulaNode:
        token = self.here
        if token.kind == "end":
            raise FormulaError("E121", token.character, "a number, text, column or token", "the end")
        self.position += 1
        if token.kind == "number":
            if len(token.text) > 10 or int(token.text) >= 2**31:
                raise FormulaError("E121", token.character, "an int, at most 2147483647", token.text)
            return FormulaNode("int", Type.INT, (), int(token.text))
        if token.kind == "text":
            return FormulaNode("text", Type.TEXT, (), _unquote(token))
        if token.kind == "sign" and token.text == "(":
            node = self.sum(depth + 1)
            self.need(")")
            return node
        if token.kind in ("name", "macro"):
            return self.name(token, depth)
        raise FormulaError("E121", token.character, "a number, text, column or token", repr(token.text))

    def name(self, token: Token, depth: int) -> FormulaNode:
        special = {
            _ARRAY: FormulaNode("array", Type.ARRAY),
            _COUNT: FormulaNode("count", Type.INT),
            _TABLE: FormulaNode("table", Type.TEXT),
            _DAY: FormulaNode("day", Type.INT),
        }
        if token.text in special:
            return special[token.text]
        if token.text in (*SINGLE, BY_GROUP):
            hint = "write the token alone, or a formula of your own"
            raise FormulaError("E121", token.character, f"{token.text} as the whole formula", "it inside another", hint)
        if token.text in self.columns:
            return _column(self.columns[token.text], token.character)
        dotted = token.text == "Math" and self.take(".")
        if (dotted and self.take("abs")) or (token.text == "abs" and self.here.text == "("):
            self.need("(")
            inner = self.sum(depth + 1)
            self.need(")")
            wide = self.arithmetic(Token("name", "abs", token.character), inner)
            return FormulaNode("abs", wide.type, (inner,))
        names = (*self.columns, *_TOKENS, "abs")
        unknown = f"Math.{self.here.text}" if dotted else token.text
        raise FormulaError("E121", token.character, "a column or token that exists", unknown, meant(token.text, names))


def _unquote(token: Token) -> str:
    if token.text.startswith("`"):
        return token.text[1:-1]

    def replace(match: re.Match[str]) -> str:
        escape = match[1]
        if escape in _ESCAPES:
            return _ESCAPES[escape]
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        character = token.character + 1 + match.start()
        raise FormulaError("E121", character, r"\n \t \r \b \f \" \' \\ or \uXXXX", repr(match[0]))

    return _ESCAPE.sub(replace, token.text[1:-1])


_DIGITS = re.compile(r"[0-9]+\Z")
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?!\d)", re.ASCII)
_CONSTANT = np.dtype(np.int32)


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
