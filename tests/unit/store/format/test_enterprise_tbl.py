"""Table definitions with the class names of Enterprise, which are read as those with the names that we write."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sparkhaven.store.errors import UnsupportedVersionError
from sparkhaven.store.format.java.java_values import ALL_CLASSES, DB_DATE_TIME, STRING_SET
from sparkhaven.store.format.table.definition import ColumnDefinition, Definition
from sparkhaven.store.format.table.tbl import decode_tbl, encode_tbl

DEFINITION = Definition(
    "NS",
    "T",
    (
        ColumnDefinition("Date", "java.lang.String", 4, encoding=2),
        ColumnDefinition("Ts", DB_DATE_TIME),
        ColumnDefinition("Tags", STRING_SET, encoding=2),
    ),
)
OURS = "io.deephaven.db.tables"
COLUMN = f"{OURS}.ColumnDefinition", "com.illumon.dataobjects.ColumnDefinition"
DEFAULT_COLUMN = f"{OURS}.DefaultColumnDefinition", "com.illumon.dataobjects.generated.DefaultColumnDefinition"
SETS = "io.deephaven.dataobjects.DataObjectColumnSet", "com.fishlib.dataobjects.WColumnSet"
SET_COLUMN = "io.deephaven.dataobjects.DataObjectColumn", "com.fishlib.dataobjects.WColumn"
TABLES = (
    "com.illumon.iris.db.tables.TableDefinition",
    "com.illumon.dataobjects.generated.DefaultTableDefinition",
    f"{OURS}.DefaultTableDefinition",
)


def renamed(data: bytes, old: str, new: str) -> bytes:
    """Another class name wherever it stands, as an array too, with the class's own serial number made another one."""
    for one, other in ((old, new), (f"[L{old};", f"[L{new};")):
        before, after = (len(name).to_bytes(2, "big") + name.encode() for name in (one, other))
        serial = ALL_CLASSES[one].suid.to_bytes(8, "big") if one in ALL_CLASSES else b""
        data = data.replace(before + serial, after + (bytes(7) + b"\x07" if serial else b""))
    return data


def with_table_class(data: bytes, name: str) -> bytes:
    """The table's own class, whose name lies in a block of a stated length."""
    old = f"{OURS}.TableDefinition"
    head = b"\x77" + bytes((len(old) + 12,)) + b"\xff\x01"
    assert data.count(head) == 1
    block = b"\x77" + bytes((len(name) + 12,)) + b"\xff\x01"
    return data.replace(head, block).replace(
        len(old).to_bytes(2, "big") + old.encode(), len(name).to_bytes(2, "big") + name.encode()
    )


@pytest.mark.parametrize(
    "names", [[COLUMN], [COLUMN, DEFAULT_COLUMN], [SETS], [SET_COLUMN], [COLUMN, DEFAULT_COLUMN, SETS, SET_COLUMN]]
)
def test_classes_of_the_definition(names: list[tuple[str, str]]) -> None:
    stages = [encode_tbl(DEFINITION)]
    for old, new in names:
        stages.append(renamed(stages[-1], old, new))
    assert all(before != after for before, after in pairwise(stages))
    assert decode_tbl(stages[-1], "x") == DEFINITION


@pytest.mark.parametrize("name", TABLES)
def test_class_of_the_table(name: str) -> None:
    data = with_table_class(encode_tbl(DEFINITION), name)
    for old, new in (COLUMN, DEFAULT_COLUMN, SETS, SET_COLUMN):
        data = renamed(data, old, new)
    assert decode_tbl(data, "x") == DEFINITION


@pytest.mark.parametrize(
    ("old", "new", "type_"),
    [
        (DB_DATE_TIME, "com.illumon.iris.db.tables.utils.DBDateTime", "Instant"),
        (DB_DATE_TIME, "java.time.Instant", "Instant"),
        (DB_DATE_TIME, "com.acme.DBDateTime", "Instant"),
        (STRING_SET, "com.illumon.iris.db.tables.libs.StringSet", "StringSet"),
        (STRING_SET, "io.deephaven.stringset.StringSet", "StringSet"),
    ],
)
def test_classes_of_columns(old: str, new: str, type_: str) -> None:
    data = renamed(encode_tbl(DEFINITION), old, new)
    schema = decode_tbl(data, "x").schema()
    ours = DEFINITION.schema()
    (column,) = [c for c in schema.columns if c.type.name == type_]
    known = ours.column(column.name)
    assert known is not None and (column.type, column.storage) == (known.type, known.storage)
    assert column.spelling == new


def test_another_class_is_named() -> None:
    with pytest.raises(UnsupportedVersionError, match="not contain a table definition"):
        decode_tbl(with_table_class(encode_tbl(DEFINITION), "com.acme.TableDefinition"), "x")
    with pytest.raises(UnsupportedVersionError, match="Column"):
        decode_tbl(renamed(encode_tbl(DEFINITION), COLUMN[0], "com.acme.Column"), "x")
