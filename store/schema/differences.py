"""What differs between two definitions of a table: columns by name, and what is said of the table as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sparkhaven.store.types.model import Column, Kind, TableSchema


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """One difference. ``column`` None: of the table. ``attribute``: ``column`` where one side has none of the name."""

    column: str | None
    attribute: str
    first: str | None
    second: str | None

    def to_json(self) -> dict[str, str | None]:
        """As plain data."""
        return {"column": self.column, "attribute": self.attribute, "a": self.first, "b": self.second}

    def words(self) -> str:
        """The difference in a line."""
        subject = self.attribute if self.column is None else f"{self.column} {self.attribute}"
        if self.attribute == "column":
            subject = self.column or ""
        return f"{subject}: {self.first or 'none'} / {self.second or 'none'}"


def schema_differences(first: TableSchema, second: TableSchema, *, ids: bool = False) -> tuple[SchemaDifference, ...]:
    """Differences of columns, then of the table. Names, versions and spellings do not count, ids if asked for."""
    columns = tuple(_columns(first, second, ids=ids))
    parts = zip(_of_table(first), _of_table(second), strict=True)
    return (*columns, *(SchemaDifference(None, name, one, other) for (name, one), (_, other) in parts if one != other))


def column_differences(first: TableSchema, second: TableSchema) -> tuple[SchemaDifference, ...]:
    """Those of columns only."""
    return tuple(_columns(first, second, ids=False))


def _columns(first: TableSchema, second: TableSchema, *, ids: bool) -> Iterator[SchemaDifference]:
    names = [column.name for column in first.columns]
    for name in (*names, *(c.name for c in second.columns if c.name not in names)):
        one, other = first.column(name), second.column(name)
        if one is None or other is None:
            sides = (None if side is None else _shown(side) for side in (one, other))
            yield SchemaDifference(name, "column", *sides)
            continue
        for (attribute, left), (_, right) in zip(_of_column(one), _of_column(other), strict=True):
            if left != right:
                yield SchemaDifference(name, attribute, left, right)
        if ids and one.id != other.id:
            yield SchemaDifference(name, "id", str(one.id), str(other.id))
    common = [[c.name for c in s.columns if first.column(c.name) and second.column(c.name)] for s in (first, second)]
    if common[0] != common[1]:
        yield SchemaDifference(None, "order of columns", *(", ".join(names) for names in common))


def _of_column(column: Column) -> tuple[tuple[str, str | None], ...]:
    component = None if column.component is None else column.component.name
    if component is None and column.type.name.endswith("[]"):
        component = column.type.name.removesuffix("[]")
    return (
        ("type", column.type.name),
        ("component type", component),
        ("role", column.kind.name.lower()),
        ("storage", column.storage.value),
        ("charset", None if column.kind is Kind.PARTITIONING else column.encoding),
        ("codec", column.codec),
        ("codec arguments", column.codec_args),
        ("width", None if column.codec_width is None else str(column.codec_width)),
    )


def _shown(column: Column) -> str:
    role = "" if column.kind is Kind.NORMAL else f", {column.kind.name.lower()}"
    codec = "" if column.codec is None else f", {column.codec.rpartition('.')[2]} {column.codec_args or ''}".rstrip()
    return f"{column.type.name}, {column.storage.value}{role}{codec}"


def _of_table(schema: TableSchema) -> tuple[tuple[str, str | None], ...]:
    rules = "; ".join(" ".join((r.name, *(f'{k}="{v}"' for k, v in r.attributes.items()))) for r in schema.rules)
    return (
        ("storage type", "nested partitioned" if schema.nested else "splayed"),
        ("key formula", schema.key_formula),
        ("distribution", schema.distribution),
        ("merge format", schema.merge_format),
        ("merge codec", schema.merge_codec),
        ("duplicates", None if schema.dedupe is None else schema.dedupe.words()),
        ("data indexes", "; ".join(",".join(keys) for keys in schema.data_indexes) or None),
        ("rules", rules or None),
        ("extended storage", schema.extended and f"{schema.extended} {schema.extended_format}"),
    )
