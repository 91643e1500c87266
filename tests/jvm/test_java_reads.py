"""A stock JVM reads what we write, and finds in it what we put there."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.format.column.charset import BY_NAME as CHARSETS
from sparkhaven.store.format.column.prefix import encode_prefix
from sparkhaven.store.format.index.grouping import GroupRanges, encode_ovr
from sparkhaven.store.format.java.java_values import JByte, JChar, JDouble, JFloat, JInt, JLong, JShort
from sparkhaven.store.format.java.object_writer import dumps
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.definition import ColumnDefinition, Definition, definition_of
from sparkhaven.store.format.table.tbl import decode_tbl, encode_tbl
from sparkhaven.store.types.datatypes import BY_NAME, TYPES
from sparkhaven.store.types.model import Column, Kind, Storage, TableSchema
from tests.support.tables.column_files import group_ranges

pytestmark = pytest.mark.jvm
HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden"
INT_UNSET = -(2**31)


def shown(value: Any) -> str:
    """What the Java side prints for a value of ours."""
    match value:
        case None:
            return "null"
        case dict():
            inner = ", ".join(f"{shown(k)}={shown(v)}" for k, v in value.items())
            return f"java.util.LinkedHashMap{{{inner}}}"
        case bool():
            return f"Boolean {str(value).lower()}"
        case str():
            return f"String {value}"
        case JDouble():
            return f"Double {struct.pack('>d', value).hex().lstrip('0') or '0'}"
        case JChar():
            return f"Character {int(value)}"
        case list():
            return str(value)
    name = {JByte: "Byte", JShort: "Short", JInt: "Integer", JLong: "Long", JFloat: "Float"}[type(value)]
    return f"{name} {value}"


def ranges_shown(ranges: GroupRanges, box: Any = str) -> str:
    pairs = zip(ranges.keys, ranges.starts.tolist(), ranges.stops.tolist(), strict=True)
    return shown({None if key is None else box(key): [start, stop] for key, start, stop in pairs})


def definition_shown(definition: Definition) -> str:
    text, number, boxed = "java.lang.String", "java.lang.Integer", "java.lang.Boolean"
    columns = "[Lio.deephaven.db.tables.ColumnDefinition;"
    table = [("Namespace", text), ("Name", text), ("Columns", columns), ("StorageType", number)]
    column = [
        ("Name", text),
        ("DataType", "java.lang.Object"),
        ("ComponentType", "java.lang.Object"),
        ("ColumnType", number),
        ("IsVarSizeString", boxed),
        ("Encoding", number),
        ("ObjectCodecClass", text),
        ("ObjectCodecArguments", text),
        ("ObjectWidth", number),
    ]
    sets = "".join(
        f" {name}({''.join(f'{index} {column} {type_},' for index, (column, type_) in enumerate(rows))}{len(rows)})"
        for name, rows in (("TableDefinition", table), ("ColumnDefinition", column))
    )
    head = f"255 1 io.deephaven.db.tables.TableDefinition {definition.namespace} {definition.name} 254"
    body = " ".join(f"[{record_shown(record)}]" for record in definition.columns)
    return f"254{sets} {head} {body} {definition.storage_type}"


def record_shown(record: ColumnDefinition) -> str:
    def text(value: object) -> str:
        return "null" if value is None else str(value)

    def number(value: int | None) -> str:
        return str(INT_UNSET if value is None else value)

    flag = "null" if record.var_size is None else str(record.var_size).lower()
    codec = f"{text(record.codec)} {text(record.codec_args)} {number(record.codec_width)}"
    classes = f"{record.data_type} {text(record.component)}"
    return f"{record.name} {classes} {record.kind} {flag} {number(record.encoding)} {codec}"


def test_a_stock_jvm_reads_every_stream(tmp_path: Path) -> None:
    fixed = Column("Px", BY_NAME["double"], Kind.NORMAL, Storage.FIXED, 7)
    symbol = Column("Sym", BY_NAME["String"], Kind.GROUPING, Storage.SYMBOL, 2, "UTF_8")
    ranges = group_ranges([None, "", "AAPL", "日本", "\U0001f600"], [1, 3, 2, 1, 1], symbol.type)
    many = group_ranges(range(100), [2] * 100, BY_NAME["Instant"])
    sizes = {f"C{number:02}.dat": number << 33 for number in range(40)}
    record = table_size.TableSize(
        2**40,
        1528385769565,
        sizes,
        {"trades-0": "41877", "émile": "\0"},
        "state",
        epoch=17,
        stream="trades",
        schema_version=3,
        sorted_columns={"Sym": "Ascending"},
        data_indexes={"Index-Sym": 9},
        truncated=True,
        checksums=dict.fromkeys(sizes, 0xFFFFFFFF),
    )
    boxes = {"a": JByte(-1), "b": JShort(-300), "c": JChar(0xFFFE), "d": JDouble(-0.0), "e": "x" * 70_000, "f": False}
    storages = (Storage.SYMBOL, Storage.BLOB)
    columns = [
        Column("Date", BY_NAME["String"], Kind.PARTITIONING, Storage.NONE, 0, "UTF_8"),
        *(Column(f"{t.name}Col", t, Kind.NORMAL, Storage.FIXED, 1) for t in TYPES if t.width),
        *(
            Column(f"{name}_{storage.name}", BY_NAME["String"], Kind.GROUPING, storage, 2, name)
            for name in CHARSETS
            for storage in storages
        ),
    ]
    schema = TableSchema("Nyc13", "Flight", tuple(columns))
    golden = (GOLDEN / "splayed.tbl").read_bytes()
    longs = {name: JLong(size) for name, size in sizes.items()}
    head = {"version": JInt(1), "byteOrder": "LITTLE_ENDIAN", "dataOffset": JLong(4096)}
    files: dict[str, tuple[bytes, str]] = {
        "Px.dat": (
            encode_prefix(fixed, overflow=True),
            shown(
                head | {"dataType": "double", "width": JInt(8), "columnId": JInt(7), "overflow": True, "metadata": None}
            ),
        ),
        "Sym.dat": (
            encode_prefix(symbol, grouping=ranges),
            shown(head | {"dataType": "java.lang.String", "width": JInt(4), "encoding": "UTF_8"})[:-1]
            + f", String columnId=Integer 2, String overflow=Boolean false, String metadata={ranges_shown(ranges)}}}",
        ),
        "Sym.ovr": (encode_ovr(ranges), ranges_shown(ranges)),
        "Ts.ovr": (encode_ovr(many), ranges_shown(many, JLong)),
        "boxes": (dumps(boxes), shown(boxes)),
        "table.size": (
            table_size.encode(record),
            shown(
                {
                    "version": JInt(1),
                    "size": JLong(2**40),
                    "lastModificationTime": JLong(1528385769565),
                    "dataFileSizes": longs,
                    "sourceState": {"trades-0": "41877", "émile": "\0"},
                    "importState": "state",
                    "columnVersion": JInt(1),
                    "epoch": JLong(17),
                    "stream": "trades",
                    "schemaVersion": JInt(3),
                    "sortedColumns": {"Sym": "Ascending"},
                    "dataIndexes": {"Index-Sym": JLong(9)},
                    "truncated": True,
                    "checksums": dict.fromkeys(sizes, JLong(0xFFFFFFFF)),
                }
            ),
        ),
        "ours.tbl": (encode_tbl(schema), definition_shown(definition_of(schema))),
        "golden.tbl": (golden, definition_shown(decode_tbl(golden, "golden"))),
    }
    for name, (data, _) in files.items():
        (tmp_path / name).write_bytes(data)
    source, stubs, classes = HERE / "ReadStreams.java", HERE / "stubs", tmp_path / "classes"
    classes.mkdir()
    paths = [str(tmp_path / name) for name in files]
    command = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", str(source), str(stubs), str(classes), *paths]
    ran = subprocess.run(command, capture_output=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    found = ran.stdout.decode().split("\n")[:-1]
    assert len(found) == len(files)
    for line, (name, (_, expected)) in zip(found, files.items(), strict=True):
        assert (name, line) == (name, expected)
