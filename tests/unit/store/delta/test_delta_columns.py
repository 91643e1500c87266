"""Names of columns in data files and in their table: by physical name or field id, in structures, of other case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.store.delta.snapshot import DeltaColumns, delta_columns
from sparkhaven.store.errors import CorruptFileError, UnsupportedVersionError


def field(name: str, physical: str, number: int, kind: Any = "long") -> dict[str, Any]:
    notes = {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": number}
    return {"name": name, "type": kind, "nullable": True, "metadata": notes}


def columns(*fields: dict[str, Any], mode: str = "name") -> DeltaColumns:
    schema = json.dumps({"type": "struct", "fields": fields})
    return delta_columns(Path("/t"), {"schemaString": schema, "configuration": {"delta.columnMapping.mode": mode}})


def with_id(name: str, number: int, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def names(of: DeltaColumns, *fields: pa.Field) -> list[str | None]:
    return [None if column is None else column.name for column in of.logical(pa.schema(fields), ())]


def test_columns_that_swapped_their_names() -> None:
    table = columns(field("a", "b", 1), field("b", "a", 2), field("Old", "X", 3))
    written = [pa.field(name, pa.int64()) for name in ("a", "b", "x", "dropped")]
    assert names(table, *written) == ["b", "a", "Old", None]
    assert table.names_of({"a": "1", "x": None}) == {"b": "1", "Old": None}


def test_columns_of_a_file_that_the_table_does_not_have() -> None:
    """Row tracking and change data leave such ones; who takes one by name, as of an earlier schema, gets it."""
    plain = columns(field("a", "b", 1), field("Old", "X", 3), mode="none")
    written = [pa.field(name, pa.int64()) for name in ("a", "_row-id-col-7", "__is_cdc", "b", "OLD")]
    assert names(plain, *written) == ["a", None, None, None, "Old"]
    found = plain.logical(pa.schema(written), (), wanted={"b"})
    assert [None if column is None else column.name for column in found] == ["a", None, None, "b", "Old"]
    unknown = columns(mode="none")  # a log without a schema
    assert names(unknown, *written) == [column.name for column in written]


def test_columns_by_field_id() -> None:
    table = columns(field("a", "p1", 1), field("b", "p2", 2), mode="id")
    written = [with_id("anything", 2, pa.int64()), with_id("p2", 9, pa.int64()), pa.field("p1", pa.int64())]
    assert names(table, *written) == ["b", None, "a"]


NESTED = {
    "type": "struct",
    "fields": [
        field("first", "p2", 2),
        field("list", "p3", 3, {"type": "array", "elementType": {"type": "struct", "fields": [field("c", "p4", 4)]}}),
        field(
            "map",
            "p5",
            5,
            {
                "type": "map",
                "keyType": "string",
                "valueType": {"type": "struct", "fields": [field("d", "p6", 6), field("e", "p7", 7)]},
            },
        ),
    ],
}
ROWS = [
    {"p2": 1, "gone": 5, "p3": [{"p4": 7}, None], "p5": [("k", {"p6": 1, "p7": 2})]},
    None,
    {"p2": None, "gone": None, "p3": None, "p5": None},
    {"p2": 4, "gone": 1, "p3": [], "p5": [("k", None), ("l", {"p6": None, "p7": 3})]},
]
WRITTEN = pa.struct(
    [
        ("p2", pa.int64()),
        ("gone", pa.int64()),
        ("p3", pa.list_(pa.struct([("p4", pa.int64())]))),
        ("p5", pa.map_(pa.string(), pa.struct([("p6", pa.int64()), ("p7", pa.int64())]))),
    ]
)


@pytest.mark.parametrize("start", [0, 1, 3])
def test_fields_of_structures_are_renamed_and_dropped(start: int) -> None:
    (column,) = columns(field("s", "p1", 1, NESTED)).logical(pa.schema([pa.field("p1", WRITTEN)]), ())
    assert column is not None and column.name == "s"
    array = column.array(pa.array(ROWS, WRITTEN).slice(start))
    expected = [
        {"first": 1, "list": [{"c": 7}, None], "map": [("k", {"d": 1, "e": 2})]},
        None,
        {"first": None, "list": None, "map": None},
        {"first": 4, "list": [], "map": [("k", None), ("l", {"d": None, "e": 3})]},
    ]
    array.validate(full=True)
    assert array.to_pylist() == expected[start:] and array.type == column.kind(WRITTEN)


def test_a_schema_that_is_none_is_damage_and_an_unknown_mode_is_refused() -> None:
    for text in ("{", "[]", '{"fields":[{}]}', '{"fields":7}', '{"fields":[{"name":"x","metadata":7}]}'):
        with pytest.raises(CorruptFileError, match="Delta log is damaged"):
            delta_columns(Path("/t"), {"schemaString": text})
    with pytest.raises(UnsupportedVersionError, match="not read"):
        columns(mode="other")
