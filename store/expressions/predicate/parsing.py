"""Conditions as typed trees: DuckDB parses the text, and what statistics and indexes answer becomes nodes of ours.

Comparisons of a column with a literal or another column, IN, BETWEEN, IS NULL, isnan, LIKE 'text%', AND, OR and NOT
are nodes. Everything else that gives true or false is one node ``sql``, which DuckDB evaluates: functions, arithmetic,
CASE, casts. A condition that compares other kinds than DuckDB's users mean, as a text with a number, is refused
here: DuckDB would cast one of them without a word.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal

import pyarrow as pa

from sparkhaven.store.errors import meant
from sparkhaven.store.expressions.duckdb_engine import (
    PREFIX,
    ROWS,
    UNREPEATABLE,
    NotASelectError,
    SqlSyntaxError,
    Tree,
    character_of,
    engine,
    engine_error,
    location_of,
    no_rows,
    nodes,
    parsed,
    sql_text,
)
from sparkhaven.store.expressions.predicate.nodes import (
    MIRROR,
    SYNTAX,
    TYPES,
    UNKNOWN_COLUMN,
    Literal,
    PredicateError,
    PredicateNode,
    Sort,
    beside,
    column_node,
    exact_beside,
    literal_node,
    same_kind,
)
from sparkhaven.store.expressions.predicate.spelling import PIECE
from sparkhaven.store.types.model import Column

MAX_DEPTH = 100
MAX_LITERALS = 10_000
SIGNS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}
LAST_BEFORE_SURROGATES = 0xD7FE
_LOGIC = {"CONJUNCTION_AND": "and", "CONJUNCTION_OR": "or"}
_INSTANTS = ("TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS")


def parse(text: str, columns: Iterable[Column]) -> PredicateNode:
    """The typed tree of a condition over these columns. Raises PredicateError."""
    refuse_other_signs(text, {"==": "=", "&&": "AND", "||": "OR", "!": "NOT"})
    statement, tree = one_expression(text)
    return ConditionParser(text, {column.name: column for column in columns}, statement).condition(tree)


def one_expression(text: str) -> tuple[Tree, Tree]:
    """The statement and the tree of a text that is one SQL expression. Raises PredicateError."""
    try:
        statements = parsed(engine(), PREFIX + text)
    except SqlSyntaxError as error:
        character = max(1, (error.character or len(PREFIX) + 1) - len(PREFIX))
        raise PredicateError(SYNTAX, min(character, len(text) + 1), "a SQL expression", error.message) from None
    except (NotASelectError, engine_error()):
        raise PredicateError(SYNTAX, 1, "one SQL expression", text.strip() or "nothing") from None
    node = statements[0].get("node", {}) if len(statements) == 1 else {}
    listed = node.get("select_list", ())
    plain = node.get("from_table", {}).get("type") == "EMPTY" and not node.get("where_clause")
    rest = ("group_expressions", "having", "qualify", "sample", "modifiers")
    if len(listed) != 1 or not plain or any(node.get(name) for name in rest) or listed[0].get("alias"):
        raise PredicateError(SYNTAX, 1, "one SQL expression", text.strip() or "nothing")
    return statements[0], listed[0]


def refuse_other_signs(text: str, signs: Mapping[str, str]) -> None:
    """PredicateError for a sign of another language. ``signs``: theirs to those of SQL."""
    for piece in PIECE.finditer(text):
        if (sql := signs.get(piece[0])) is not None:
            raise PredicateError(SYNTAX, piece.start() + 1, sql, piece[0], f"write {sql} for {piece[0]}")


class ExpressionParser:
    """An expression over columns, with its syntax tree. ``columns``: by the names that the text has for them."""

    def __init__(self, text: str, columns: Mapping[str, Column], statement: Tree) -> None:
        self.text, self.columns, self._statement = text, columns, statement

    def sql(self, tree: Tree) -> PredicateNode:
        """The node of an expression that DuckDB evaluates."""
        columns: dict[str, Column] = {}
        cast = {id(node.get("child")) for node in nodes(tree) if node.get("class") == "CAST"}
        for node in nodes(tree):
            if node.get("class") in ("SUBQUERY", "WINDOW", "PARAMETER", "STAR"):
                what = {"SUBQUERY": "a query inside", "WINDOW": "a window", "PARAMETER": "a parameter", "STAR": "*"}
                raise PredicateError(
                    TYPES, self.character(node), "an expression over one row", what[str(node["class"])],
                    "`sparkhaven sql QUERY` and sql(…) take whole queries",
                )  # fmt: skip
            if node.get("type") == "COLUMN_REF":
                column = self.column_of(node)
                if pa.types.is_decimal256(column.type.arrow) and id(node) not in cast:
                    digits = "a decimal of at most 38 digits, or one that is cast"
                    hint = f"compare it with a literal, or cast it: {column.name}::DOUBLE"
                    raise PredicateError(TYPES, self.character(node), digits, column.name, hint)
                columns[column.name] = column
        self.refuse_functions(tree)
        parts = tuple(column_node(columns[name]) for name in sorted(columns))
        return PredicateNode("sql", Sort.BOOLEAN, parts, sql_text(self._statement, [tree]))

    def refuse_functions(self, tree: Tree) -> None:
        """PredicateError for a function that gives another result when it is asked again."""
        for node in nodes(tree):
            name = str(node.get("function_name", "")).lower()
            if node.get("class") == "FUNCTION" and name in UNREPEATABLE:
                raise PredicateError(
                    TYPES,
                    self.character(node),
                    "a function that gives the same result each time",
                    name,
                    "write its value into the condition",
                )

    def bound_type(self, tree: Tree) -> str:
        """The type that DuckDB gives an expression. PredicateError: it gives none, or one for many rows."""
        text, connection = sql_text(self._statement, [tree]), engine()
        with _empty_rows(self.columns_of(tree)):
            try:
                connection.sql(f"select 1 from {ROWS} where ({text}) is null")  # which refuses aggregates
                return str(connection.sql(f"select {text} from {ROWS}").types[0])
            except engine_error() as error:
                raise self.refused(tree, error) from None

    def arrow_type(self, tree: Tree, text: str) -> pa.DataType:
        """The type of the values of an expression that is bound, as ``text`` writes it."""
        with _empty_rows(self.columns_of(tree)):
            return engine().sql(f"select {text} from {ROWS}").to_arrow_table().schema.field(0).type

    def columns_of(self, tree: Tree) -> list[Column]:
        """The columns that an expression names, each as often as it does."""
        return [self.column_of(node) for node in nodes(tree) if node.get("type") == "COLUMN_REF"]

    def refused(self, tree: Tree, error: Exception) -> PredicateError:
        """DuckDB's refusal of an expression."""
        message = str(error).strip().partition("\n")[0]
        hint = None
        if "TIMESTAMPTZ_NS" in message or "TIME_NS" in message:
            hint = (
                "Instants and times are exact to the nanosecond. For functions of dates take microseconds:"
                ' "At"::TIMESTAMPTZ, T::TIME'
            )
        return PredicateError(TYPES, self.character(tree), "an expression that DuckDB evaluates", message, hint)

    def character(self, node: Tree) -> int:
        """The character of the text at which a node of its tree begins."""
        locations = [byte for part in nodes(node) if (byte := location_of(part)) is not None]
        return max(1, character_of(PREFIX + self.text, min(locations, default=0)) - len(PREFIX))

    def column_of(self, tree: Tree) -> Column:
        """The column that a reference names. PredicateError: there is none."""
        names = tree["column_names"]
        if len(names) == 1 and (column := self.named(str(names[0]))) is not None:
            return column
        name = ".".join(map(str, names))
        raise PredicateError(
            UNKNOWN_COLUMN, self.character(tree), "a column of the table", name, meant(name, tuple(self.columns))
        )

    def named(self, name: str) -> Column | None:
        """The column of this name; case counts only where two names differ in nothing else, as in SQL."""
        if (column := self.columns.get(name)) is not None:
            return column
        alike = [column for other, column in self.columns.items() if other.lower() == name.lower()]
        return alike[0] if len(alike) == 1 else None

    def _by_name(self, name: str) -> Column:
        return next(column for column in self.columns.values() if column.name == name)


@contextmanager
def _empty_rows(columns: Iterable[Column]) -> Iterator[None]:
    """Columns without rows, which DuckDB binds expressions to."""
    engine().register(ROWS, no_rows(columns))
    try:
        yield
    finally:
        engine().unregister(ROWS)


class ConditionParser(ExpressionParser):
    """From the syntax tree of a condition to a tree of ours."""

    def __init__(self, text: str, columns: Mapping[str, Column], statement: Tree) -> None:
        super().__init__(text, columns, statement)
        self._depth = 0

    def sql(self, tree: Tree) -> PredicateNode:
        """The node of a condition that DuckDB evaluates. PredicateError: it cannot, or it is no condition."""
        node = super().sql(tree)
        if (kind := self.bound_type(tree)) != "BOOLEAN":
            raise PredicateError(TYPES, self.character(tree), "a condition", kind, "compare it with something")
        return node if node.parts else self._constant_condition(tree)

    def condition(self, tree: Tree) -> PredicateNode:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise PredicateError(SYNTAX, self.character(tree), f"at most {MAX_DEPTH} levels", "a deeper expression")
        try:
            return self._condition(tree)
        finally:
            self._depth -= 1

    def _condition(self, tree: Tree) -> PredicateNode:
        kind = str(tree.get("type"))
        if kind in _LOGIC:
            return joined(_LOGIC[kind], [self.condition(child) for child in tree["children"]])
        if kind == "OPERATOR_NOT":
            return PredicateNode("not", Sort.BOOLEAN, (self.condition(tree["children"][0]),))
        if kind in SIGNS:
            return self.comparison(tree, SIGNS[kind], tree["left"], tree["right"])
        node: PredicateNode | None = getattr(self, _MAKERS[kind])(tree) if kind in _MAKERS else None
        return self.sql(tree) if node is None else node

    # --- what statistics and indexes answer -------------------------------------------------------------------

    def comparison(self, tree: Tree, sign: str, left: Tree, right: Tree) -> PredicateNode:
        one, other = self.operand(left), self.operand(right)
        if one is None or other is None:
            return self.sql(tree)
        if one.op == "literal" and other.op == "literal":
            return self._constant_condition(tree)
        if one.op == "literal":
            one, other, sign = other, one, MIRROR[sign]
        character = self.character(tree)
        if other.op == "column":
            if self._cast_alike(one, other):
                return self.sql(tree)
            same_kind(one, other, sign, character)
        else:
            column = self._compared(one, character)
            if one.sort is Sort.DECIMAL and isinstance(other.value, float):
                return self.sql(tree)
            other = beside(column, one, other, sign, character)
            if not exact_beside(column, other):
                return self.sql(tree)
        if one.sort in (Sort.BOOLEAN, Sort.BYTES) and sign not in ("=", "<>"):
            return self.sql(tree)
        return PredicateNode(sign, Sort.BOOLEAN, (one, other))

    def _cast_alike(self, one: PredicateNode, other: PredicateNode) -> bool:
        """Whether DuckDB compares both columns by a type that ours does not: lists, and numbers that lose digits."""
        sorts = {one.sort, other.sort}
        if Sort.OTHER in sorts:
            return True
        narrow = "float" in [self._by_name(str(node.value)).type.name for node in (one, other)]
        return sorts == {Sort.DECIMAL, Sort.FLOAT} or (narrow and sorts == {Sort.INTEGER, Sort.FLOAT})

    def _compared(self, node: PredicateNode, character: int) -> Column:
        """The column of a node. PredicateError: its values do not compare with a literal."""
        if node.sort is Sort.OTHER:
            hint = "ask whether it IS NULL, or use a function of it"
            raise PredicateError(TYPES, character, "values that can be compared", str(node.value), hint)
        return self._by_name(str(node.value))

    def between(self, tree: Tree) -> PredicateNode | None:
        bounds = ((">=", tree["lower"]), ("<=", tree["upper"]))
        parts = [self.comparison(tree, sign, tree["input"], bound) for sign, bound in bounds]
        return None if any(part.op == "sql" for part in parts) else joined("and", parts)

    def member(self, tree: Tree) -> PredicateNode | None:
        first, *listed = tree["children"]
        if len(listed) > MAX_LITERALS:
            raise PredicateError(SYNTAX, self.character(tree), f"at most {MAX_LITERALS} values", f"{len(listed)}")
        node = self.operand(first)
        if node is None or node.op != "column" or not listed:
            return None
        character = self.character(tree)
        column = self._compared(node, character)
        values: list[Literal] = []
        for item in listed:
            literal = self.operand(item)
            if literal is None or literal.op != "literal":
                return None
            narrow = column.type.name == "float" and not isinstance(literal.value, int)
            if narrow or (node.sort is Sort.DECIMAL and isinstance(literal.value, float)):
                return None  # the type that DuckDB casts to depends on the other values
            literal = beside(column, node, literal, "IN", character)
            if not exact_beside(column, literal):
                return None
            values.append(literal.value)  # type: ignore[arg-type]  # one value
        return PredicateNode("in", Sort.BOOLEAN, (node,), tuple(values))

    def null(self, tree: Tree) -> PredicateNode | None:
        (child,) = tree["children"]
        if child.get("type") != "COLUMN_REF":
            return None
        node = column_node(self.column_of(child))
        asked = PredicateNode("isnull", Sort.BOOLEAN, (node,))
        return asked if tree["type"] == "OPERATOR_IS_NULL" else PredicateNode("not", Sort.BOOLEAN, (asked,))

    def flag(self, tree: Tree) -> PredicateNode | None:
        node = column_node(self.column_of(tree))
        if node.sort is not Sort.BOOLEAN:
            hint = "compare it with something"
            raise PredicateError(TYPES, self.character(tree), "a condition", node.sort.value, hint)
        return node

    def literal(self, tree: Tree) -> PredicateNode | None:
        node = self.operand(tree)
        if node is not None and node.sort is not Sort.BOOLEAN:
            raise PredicateError(TYPES, self.character(tree), "a condition", node.sort.value)
        return self._constant_condition(tree) if node is None else node

    def function(self, tree: Tree) -> PredicateNode | None:
        name = str(tree.get("function_name", "")).lower()
        arguments = [argument["expression"] for argument in tree["arguments"]]
        if name == "isnan" and len(arguments) == 1:
            node = self.operand(arguments[0])
            fits = node is not None and node.op == "column" and node.sort is Sort.FLOAT
            return PredicateNode("isnan", Sort.BOOLEAN, (node,)) if fits and node is not None else None
        if name in ("~~", "prefix", "starts_with") and len(arguments) == 2:
            return self._prefix(tree, *arguments, like=name == "~~")
        return None

    def _prefix(self, tree: Tree, of: Tree, start: Tree, *, like: bool) -> PredicateNode | None:
        """LIKE 'text%' as the function, and the bounds that follow from it, which statistics answer."""
        node, text = self.operand(of), self.operand(start)
        if node is None or node.op != "column" or node.sort is not Sort.TEXT:
            return None
        if text is None or not isinstance(text.value, str):
            return None
        stop = next((number for number, sign in enumerate(text.value) if sign in "%_"), None) if like else None
        prefix = text.value[:stop]
        if not prefix or (like and stop is None):
            return None
        parts = [PredicateNode(">=", Sort.BOOLEAN, (node, literal_node(prefix)))]
        if ord(prefix[-1]) <= LAST_BEFORE_SURROGATES:
            above = prefix[:-1] + chr(ord(prefix[-1]) + 1)
            parts.append(PredicateNode("<", Sort.BOOLEAN, (node, literal_node(above))))
        return joined("and", [*parts, self.sql(tree)])

    # --- operands ---------------------------------------------------------------------------------------------

    def operand(self, tree: Tree) -> PredicateNode | None:
        """A column, or a literal; None for another expression, and for NULL."""
        if tree.get("type") == "COLUMN_REF":
            return column_node(self.column_of(tree))
        if tree.get("type") == "VALUE_CONSTANT":
            return self._literal(tree)
        if tree.get("class") == "FUNCTION" and tree.get("function_name") == "-" and len(tree["arguments"]) == 1:
            inner = self.operand(tree["arguments"][0]["expression"])
            if inner is not None and inner.op == "literal" and inner.sort.number:
                return literal_node(-inner.value)  # type: ignore[operator]  # a number
            return None
        return self._computed(tree) if self._constant(tree) else None

    def _literal(self, tree: Tree) -> PredicateNode | None:
        constant = tree.get("literal", {})
        kind, text = constant.get("kind"), str(constant.get("text"))
        if kind == "STRING":
            return literal_node(text)
        if kind == "BOOLEAN":
            return literal_node(text == "true")
        if kind not in ("INTEGER", "NUMERIC"):
            return None
        if "e" in text.lower():
            try:
                number = float(text)
            except ValueError:
                raise PredicateError(SYNTAX, self.character(tree), "a number", text) from None
            if not math.isfinite(number):
                raise PredicateError(SYNTAX, self.character(tree), "a number that a double can hold", text)
            return literal_node(number)
        return literal_node(int(text) if kind == "INTEGER" else Decimal(text))

    def _constant(self, tree: Tree) -> bool:
        kinds = {str(node.get("class")) for node in nodes(tree) if "class" in node}
        return not kinds - {"CAST", "CONSTANT", "FUNCTION", "TYPE", "OPERATOR", "CASE"}

    def _computed(self, tree: Tree) -> PredicateNode | None:
        """The value of an expression without columns."""
        self.refuse_functions(tree)
        text = sql_text(self._statement, [tree])
        try:
            relation = engine().sql(f"select {text} v")
            kind = str(relation.types[0])
            if kind in _INSTANTS:
                relation = engine().sql(f"select epoch_ns(({text})::TIMESTAMPTZ_NS) v")
            value = relation.to_arrow_table().column(0)[0]
        except engine_error() as error:
            raise self.refused(tree, error) from None
        if not value.is_valid:
            return None
        if kind in _INSTANTS:
            return literal_node(value.as_py(), Sort.INSTANT)
        if pa.types.is_date32(value.type):
            return literal_node(value.cast(pa.int32()).as_py(), Sort.DATE)
        if pa.types.is_time64(value.type):
            return literal_node(value.cast(pa.time64("ns")).cast(pa.int64()).as_py(), Sort.TIME)
        if pa.types.is_decimal(value.type) and kind == "HUGEINT":
            return literal_node(int(value.as_py()))
        plain = value.as_py()
        return literal_node(plain) if isinstance(plain, bool | int | float | Decimal | str | bytes) else None

    def _constant_condition(self, tree: Tree) -> PredicateNode:
        node = self._computed(tree)
        return PredicateNode("literal", Sort.BOOLEAN, (), None) if node is None else node


_MAKERS = {  # methods, which a parser of plans has of its own
    "COMPARE_BETWEEN": "between",
    "COMPARE_IN": "member",
    "OPERATOR_IS_NULL": "null",
    "OPERATOR_IS_NOT_NULL": "null",
    "COLUMN_REF": "flag",
    "VALUE_CONSTANT": "literal",
    "FUNCTION": "function",
}


def joined(op: str, parts: list[PredicateNode]) -> PredicateNode:
    """``and`` inside of ``and`` is one node."""
    flat = [inner for part in parts for inner in (part.parts if part.op == op else (part,))]
    return flat[0] if len(flat) == 1 else PredicateNode(op, Sort.BOOLEAN, tuple(flat))


def parts_of(node: PredicateNode) -> list[PredicateNode]:
    """A node and all below it."""
    return [node, *(inner for part in node.parts for inner in parts_of(part))]
