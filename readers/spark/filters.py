"""Filters that Spark pushes down, as expressions over the columns of a table.

They only save work: Spark checks every row again, so a filter that is not understood is left to Spark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pyspark.sql import datasource as spark

from readers.spark.options import ReadOptions
from store.errors import SchemaParseError
from store.predicate.expression import Predicate, parse_predicate
from store.types.model import TableSchema

_SIGNS = {
    spark.EqualTo: "=",
    spark.GreaterThan: ">",
    spark.GreaterThanOrEqual: ">=",
    spark.LessThan: "<",
    spark.LessThanOrEqual: "<=",
}


def pushed_predicate(filters: Iterable[spark.Filter], schema: TableSchema, options: ReadOptions) -> Predicate | None:
    """The option ``where`` and those of the filters that can be expressed; SchemaParseError for the option alone."""
    found = parse_predicate(options.where, schema) if options.where else None
    texts = [f"({options.where})"] if options.where else []
    for each in filters:
        text = _text(each, schema, options)
        if text is None:
            continue
        try:
            found = parse_predicate(" && ".join([*texts, f"({text})"]), schema)
        except SchemaParseError:
            continue  # a type that compares in another way, or a name that is a word of the language
        texts.append(f"({text})")
    return found


def _text(each: spark.Filter, schema: TableSchema, options: ReadOptions) -> str | None:
    if isinstance(each, spark.Not):
        inner = _text(each.child, schema, options)
        return None if inner is None else f"!({inner})"
    path: tuple[str, ...] = getattr(each, "attribute", ())
    column = schema.column(path[0]) if len(path) == 1 else None
    if column is None:
        return None
    name, kind = column.name, column.type.name
    if isinstance(each, spark.IsNull | spark.IsNotNull):
        return f"{'!' * isinstance(each, spark.IsNotNull)}isNull({name})"
    if (kind, options.instant) == ("Instant", "timestamp-truncate") or (kind, options.char) == ("char", "int"):
        return None  # Spark sees other values than the expression would
    if isinstance(each, spark.In):
        values = [_literal(value) for value in each.value]
        known = [value for value in values if value is not None]
        return f"{name} in ({', '.join(known)})" if known and known == values else None
    value = _literal(getattr(each, "value", None))
    if isinstance(each, spark.EqualNullSafe):
        return f"isNull({name})" if each.value is None else value and f"!isNull({name}) && {name} = {value}"
    sign = _SIGNS.get(type(each))
    return None if sign is None or value is None else f"{name} {sign} {value}"


def _literal(value: Any) -> str | None:
    """A literal of the language; None: it has none for this value."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else None
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, datetime) and value.tzinfo is not None:
        return f'"{value.isoformat()}"'
    return None
