"""DuckDB as parser and evaluator of expressions: a connection that reaches no file, no extension and no setting."""

from __future__ import annotations

import atexit
import json
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.types.codings.decimals import decimal_texts
from sparkhaven.store.types.model import Column

if TYPE_CHECKING:
    import duckdb

Tree = dict[str, Any]
SETTINGS = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",  # else a name in a query finds a Python variable
}
PREFIX = "select "  # before an expression, so that it is a statement
ROWS = "rows"  # the name that a batch has in DuckDB
UNREPEATABLE = frozenset(  # functions with another result when they are called again: time, chance, settings
    [
        "current_connection_id",
        "current_database",
        "current_date",
        "current_query",
        "current_query_id",
        "current_schema",
        "current_schemas",
        "current_setting",
        "current_transaction_id",
        "currval",
        "gen_random_uuid",
        "get_current_time",
        "get_current_timestamp",
        "getvariable",
        "in_search_path",
        "nextval",
        "now",
        "random",
        "setseed",
        "setval",
        "sleep_ms",
        "stats",
        "today",
        "transaction_timestamp",
        "txid_current",
        "uuid",
        "uuidv4",
        "uuidv7",
        "vector_type",
        "write_log",
    ]
)
_opened = threading.local()


class SqlSyntaxError(Exception):
    """A text that DuckDB does not parse. ``character``: from 1, None where it does not say."""

    def __init__(self, message: str, character: int | None) -> None:
        super().__init__(message)
        self.message, self.character = message, character


class NotASelectError(Exception):
    """A statement that is no SELECT."""


def engine() -> duckdb.DuckDBPyConnection:
    """The connection of this thread, opened at its first use. A forked process opens its own.

    DuckDB has no thread beside the caller's. A forked process would wait for such threads for ever, when it closes the
    connection of its parent: they are not in it.
    """
    import duckdb  # which a read without a condition does not need

    if getattr(_opened, "process", None) != os.getpid():
        _opened.connection = duckdb.connect(config=SETTINGS | {"threads": "1", "async_threads": "0"})
        _opened.connection.execute("set TimeZone = 'UTC'")
        _opened.connection.execute("set lock_configuration = true")
        _opened.process = os.getpid()
    connection: duckdb.DuckDBPyConnection = _opened.connection
    return connection


def engine_error() -> type[Exception]:
    """What DuckDB raises."""
    import duckdb

    error: type[Exception] = duckdb.Error
    return error


def _forget() -> None:
    """Lets the connection go before the interpreter ends, which else tells of what DuckDB still holds."""
    _opened.__dict__.clear()


atexit.register(_forget)


def parsed(connection: duckdb.DuckDBPyConnection, text: str) -> list[Tree]:
    """The syntax trees of the statements of a text. Raises SqlSyntaxError and NotASelectError."""
    serialized = connection.execute("select json_serialize_sql(?::varchar)", [text]).fetchall()
    tree: Tree = json.loads(serialized[0][0])
    if tree.get("error"):
        if tree.get("error_type") != "parser":
            raise NotASelectError(text)
        position = tree.get("position")
        raise SqlSyntaxError(
            str(tree.get("error_message")), None if position is None else character_of(text, int(position))
        )
    return list(tree.get("statements", ()))


def sql_text(statement: Tree, expressions: Sequence[Tree]) -> str:
    """Expressions as SQL, from their trees. ``statement``: the one that they come from."""
    node = {**statement["node"], "select_list": list(expressions)}
    whole = json.dumps({"error": False, "statements": [{**statement, "node": node}]})
    text: str = engine().execute("select json_deserialize_sql(?::json)", [whole]).fetchall()[0][0]
    return text[len(PREFIX) :]


def quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def nodes(tree: Any) -> Iterator[Tree]:
    """Every object of a syntax tree."""
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            yield node
            todo.extend(node.values())
        elif isinstance(node, list):
            todo.extend(node)


def location_of(node: Tree) -> int | None:
    """The byte of its text at which a node begins; None where the tree does not say."""
    location = int(node.get("query_location", -1))
    return location if 0 <= location < 1 << 32 else None


def character_of(text: str, byte: int) -> int:
    """The character, from 1, that begins at this byte of the text in UTF-8."""
    return len(text.encode()[:byte].decode(errors="ignore")) + 1


def no_rows(columns: Iterable[Column]) -> pa.RecordBatch:
    """The columns as DuckDB gets them, without rows. Decimals of more than 38 digits, which it has not, are texts."""
    kinds = {column.name: _given(column.type.arrow) for column in columns} or {"": pa.int8()}
    return pa.record_batch([pa.nulls(0, kind) for kind in kinds.values()], names=list(kinds))


def _given(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_decimal256(kind) else kind


def evaluated(text: str, rows: pa.RecordBatch, where: str = "row ", first: int = 0) -> pa.Array:
    """The values of an expression of these columns, one a row.

    SchemaMismatchError: it has no value in a row, which is named: at ``where`` and its number, the first being
    ``first``.
    """
    try:
        return _evaluated(text, rows)
    except engine_error() as error:
        message = str(error).strip().partition("\n")[0]
        raise SchemaMismatchError(
            "an expression has no value in a row",
            where=f"{where}{first + _first_failing(text, rows)}",
            expected=f"a value of: {text}",
            found=message[:160],
            hint="leave such rows as they are, by CASE WHEN … THEN … ELSE … END",
        ) from None


def _evaluated(text: str, rows: pa.RecordBatch) -> pa.Array:
    arrays = [decimal_texts(array) if pa.types.is_decimal256(array.type) else array for array in rows.columns]
    connection = engine()
    connection.register(ROWS, pa.record_batch(arrays, names=rows.schema.names))
    try:
        values = connection.sql(f"select {text} from {ROWS}").to_arrow_table().column(0)
    finally:
        connection.unregister(ROWS)
    return values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks or [pa.array([], values.type)])


def _first_failing(text: str, rows: pa.RecordBatch) -> int:
    """The first row that has no value."""
    low, high = 0, rows.num_rows
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _evaluated(text, rows.slice(low, middle - low))
        except engine_error():
            high = middle
        else:
            low = middle
    return low
