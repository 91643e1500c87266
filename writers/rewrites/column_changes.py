"""What a rewrite of history is asked for, checked against the deployed schema.

The schema says which columns a table has. A rewrite brings the files of old dates to it, and computes values; what is
not deployed is refused with the command that deploys it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from zlib import crc32

import pyarrow as pa

from sparkhaven.store.errors import SettingsError, meant
from sparkhaven.store.expressions.predicate.expression import ValueExpression, parse_value
from sparkhaven.store.types.datatypes import is_known
from sparkhaven.store.types.model import Column, Kind, TableSchema

Function = Callable[[pa.RecordBatch], pa.Array | pa.ChunkedArray]
Value = str | Function


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """The changes of one rewrite, by names of columns.

    ``rename``: earlier name -> name. ``retype``: name -> type, as a schema spells it. ``set``: name -> expression, or
    function of record batches. ``inputs``: the columns that functions are given, None: all. ``lossy``: columns of
    floating numbers that take the nearest value.
    """

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    retype: Mapping[str, str] = field(default_factory=dict)
    set: Mapping[str, Value] = field(default_factory=dict)
    inputs: tuple[str, ...] | None = None
    lossy: frozenset[str] = frozenset()

    def words(self) -> list[str]:
        """The changes as options, for the record: a function as ``value_name`` has it."""
        words = [f"--add {name}" for name in self.add] + [f"--drop {name}" for name in self.drop]
        words += [f"--rename {old}={new}" for old, new in self.rename.items()]
        words += [f"--retype {name}={kind}" for name, kind in self.retype.items()]
        return words + [f"--set {name}={value_name(value)}" for name, value in self.set.items()]


def value_name(value: Value) -> str:
    """An expression as it is written, a function by its name and a checksum of its code and of what it was given."""
    if isinstance(value, str):
        return value
    name = f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', type(value).__qualname__)}"
    code = getattr(value, "__code__", None)
    if not isinstance(code, CodeType):
        return name
    cells = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
    plain = [cell if isinstance(cell, str | int | float | bytes) else type(cell).__name__ for cell in cells]
    given = repr((getattr(value, "__defaults__", None), plain)).encode()
    return f"{name}#{crc32(given, _code_sum(code)):08x}"


def _code_sum(code: CodeType) -> int:
    """A checksum of a function's code, and of that of the functions inside of it."""
    total = crc32(code.co_code + repr(code.co_names).encode())
    for constant in code.co_consts:
        inner = isinstance(constant, CodeType)
        total = crc32(_code_sum(constant).to_bytes(4) if inner else repr(constant).encode(), total)
    return total


@dataclass(frozen=True, slots=True)
class Setting:
    """A column that is computed: its values by an expression or a function, from the columns ``inputs``."""

    column: Column
    value: Value
    expression: ValueExpression | None
    inputs: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class DeployedChanges:
    """Changes of columns, with the columns of a schema that has them so."""

    changes: ColumnChanges
    schema: TableSchema
    added: tuple[Column, ...]
    dropped: tuple[Column, ...]
    renamed: tuple[Column, ...]
    retyped: tuple[Column, ...]
    settings: tuple[Setting, ...]


def deployed_changes(changes: ColumnChanges, schema: TableSchema) -> DeployedChanges:
    """The columns that changes name. SettingsError: the deployed schema has them otherwise, or nothing is changed.

    SchemaParseError: an expression cannot be used.
    """
    if not changes.words():
        raise SettingsError(
            "nothing is to be changed",
            where=schema.full_name,
            expected="at least one of --add, --drop, --rename, --retype and --set",
            found="none",
            hint="see `sparkhaven rewrite-column --help`",
        )
    unused = sorted(changes.lossy - set(changes.set))
    if unused:
        raise SettingsError("--lossy names a column that --set does not", expected="a column of --set", found=unused[0])
    return DeployedChanges(
        changes,
        schema,
        added=tuple(_stored(schema, name, "--add") for name in changes.add),
        dropped=tuple(_dropped(schema, name) for name in changes.drop),
        renamed=tuple(_renamed(schema, old, new) for old, new in changes.rename.items()),
        retyped=tuple(_retyped(schema, name, kind) for name, kind in changes.retype.items()),
        settings=tuple(_setting(changes, schema, name, value) for name, value in changes.set.items()),
    )


def _stored(schema: TableSchema, name: str, option: str) -> Column:
    column = schema.column(name)
    if column is None:
        names = [column.name for column in schema.stored]
        slip = meant(name, names)
        raise SettingsError(
            f"{option} names a column that the deployed schema lacks",
            where=schema.full_name,
            expected=", ".join(names),
            found=name,
            hint=f"{f'{slip} ' if slip else ''}To add a column, {_deploying('write it into the schema file')}",
        )
    if column.kind is Kind.PARTITIONING:
        raise SettingsError(
            f"{option} names the partitioning column",
            where=schema.full_name,
            expected="a column that has files",
            found=name,
            hint="its values are the dates. Merge the rows of another table to move them",
        )
    return column


def _deploying(change: str, option: str = "") -> str:
    return f"{change}, then run `sparkhaven schema deploy FILE{option}`"


def _dropped(schema: TableSchema, name: str) -> Column:
    gone = next((column for column in schema.retired if name in (column.name, *column.former_names)), None)
    if schema.column(name) is None and gone is not None and gone.id in schema.dropped:
        return gone
    known = schema.column(name) is not None or gone is not None
    raise SettingsError(
        "--drop names a column that no command has dropped",
        where=schema.full_name,
        expected="a column that schema deploy has dropped",
        found=name,
        hint=_deploying("remove the column from the schema file", f" --drop {name}")
        if known
        else f"`sparkhaven schema history {schema.full_name}` lists the columns there were",
    )


def _renamed(schema: TableSchema, old: str, new: str) -> Column:
    column = schema.column(new)
    if column is not None and old in column.former_names:
        return column
    raise SettingsError(
        f"--rename {old}={new} names no deployed change of a name",
        where=schema.full_name,
        expected=f"column {new}, which was called {old}",
        found=f"{new}, which was never called {old}" if column is not None else f"no column {new}",
        hint=_deploying("write the new name into the schema file", f" --rename {old}={new}"),
    )


def _retyped(schema: TableSchema, name: str, kind: str) -> Column:
    column = _stored(schema, name, "--retype")
    if kind in (column.spelling, column.type.name, *column.type.spellings):
        return column
    wider = _deploying("write the type into the schema file")
    other = (
        f"Numbers become wider so. For any other type add a column of another name, and compute it by --set NEW={name}"
    )
    raise SettingsError(
        f"column {name} is deployed with another type",
        where=schema.full_name,
        expected=column.spelling or column.type.name,
        found=kind if is_known(kind) else f"{kind}, which is no type of a schema",
        hint=f"{wider}. {other}",
    )


def _setting(changes: ColumnChanges, schema: TableSchema, name: str, value: Value) -> Setting:
    column, readable = _stored(schema, name, "--set"), schema.readable.columns
    by_name = {one.name: one for one in readable}
    if isinstance(value, str):
        expression = parse_value(value, readable, column)
        return Setting(column, value, expression, tuple(by_name[used] for used in expression.columns))
    inputs = schema.columns
    if changes.inputs is not None:
        unknown = [used for used in changes.inputs if used not in by_name]
        if unknown:
            raise SettingsError("a function is given an unknown column", where=schema.full_name, found=unknown[0])
        inputs = tuple(by_name[used] for used in changes.inputs)
    return Setting(column, value, None, tuple(inputs))


def repeats(settings: Sequence[Setting]) -> list[Setting]:
    """The settings whose values depend on the column itself: done twice they give other values."""
    return [setting for setting in settings if setting.column.id in {column.id for column in setting.inputs}]
