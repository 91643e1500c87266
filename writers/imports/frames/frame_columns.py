"""The columns of a data frame, found by name among those of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import pyarrow as pa

from sparkhaven.store.errors import SchemaMismatchError, SettingsError
from sparkhaven.store.suggestions import meant
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.imports.foreign_values import AllowedConversions, refused_type, takes


def fit_columns(
    given: pa.Schema,
    schema: TableSchema,
    dates: Sequence[str] | None,
    options: AllowedConversions,
    name: str,
) -> tuple[str, ...]:
    """The columns that are read of a frame, called ``name`` in errors, with the partitioning column if it has that.

    SchemaMismatchError: it lacks columns, has others than the table and the ignored ones, or has one of a type that the
    table does not take.
    """
    columns = {column.name: column for column in schema.columns}
    partitioning = schema.partitioning
    assert partitioning is not None  # noqa: S101  the caller saw it
    names = [field for field in given.names if field not in options.ignored]
    missing = [column.name for column in schema.stored if column.name not in names]
    if partitioning.name not in names and (dates is None or one_date(dates) is None):
        missing.append(partitioning.name)
    odd = [field for field in names if field not in columns]
    twice = [field for field, times in Counter(names).items() if times > 1]
    if twice:
        raise SchemaMismatchError(
            "the rows have a column twice", where=name, expected=f"one column {twice[0]}", found=twice[0]
        )
    if missing:
        hint = meant(missing[0], odd) or "add them. A null of the column's type stands for an unknown value"
        if missing == [partitioning.name]:
            hint = "name the date of all rows with dates: --dates on the command line"
        raise SchemaMismatchError(
            "the rows lack columns of the table",
            where=f"{name}, table {schema.full_name}",
            expected=", ".join(missing),
            found=", ".join(names) or "no column",
            hint=hint,
        )
    if odd:
        raise SchemaMismatchError(
            "the rows have columns that the table lacks",
            where=f"{name}, table {schema.full_name}",
            expected=", ".join(columns),
            found=", ".join(odd),
            hint=meant(odd[0], columns) or "drop them, or ignore them by name: --ignore COLUMN on the command line",
        )
    for field in names:
        kind = given.field(field).type
        if not takes(kind, columns[field], options):
            raise refused_type(columns[field], kind, name)
    return tuple(names)


def one_date(dates: Sequence[str]) -> str | None:
    """The date, if one is named and no range."""
    return dates[0] if len(dates) == 1 and ".." not in dates[0] else None


def ignored_columns(names: Collection[str], schema: TableSchema) -> frozenset[str]:
    """Names of columns that are not read. SettingsError: the table has one of them."""
    own = sorted(set(names) & {column.name for column in schema.columns})
    if own:
        raise SettingsError(
            "a column of the table cannot be ignored",
            where=schema.full_name,
            expected="columns that the table does not have",
            found=", ".join(own),
        )
    return frozenset(names)
