"""Records that readers must reject: Java streams, ``table.size``, ``.tbl``, ``.tlmi``, row sets, footers of Parquet."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sparkhaven.store.errors import CorruptFileError, SparkhavenError, UnsupportedVersionError
from sparkhaven.store.format.index.tlmi import MAGIC, IndexEntry, decode_tlmi, encode_tlmi
from sparkhaven.store.format.java.java_values import ALL_CLASSES, JInt, JLong
from sparkhaven.store.format.java.object_reader import loads
from sparkhaven.store.format.java.object_writer import STREAM_HEADER, Writer, dumps, utf
from sparkhaven.store.format.parquet.footer import decode_footer
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.tbl import column_sets, decode_tbl
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.types.codings.row_set import decode_rows
from tests.support.places import GOLDEN

C, V = CorruptFileError, UnsupportedVersionError
PATH = Path("dir/file")


@dataclass(frozen=True, slots=True)
class Rejected:
    """A crafted file: ``read`` makes it below a directory and reads it. ``where``: what follows the path, if known.

    ``row``: the file and the condition in the list of what a reader must reject.
    """

    row: str
    kind: str
    read: Callable[[Path], object]
    error: type[SparkhavenError]
    what: str
    where: str = ""


def _of(read: Callable[[bytes, Path], object], data: bytes | Callable[[], bytes]) -> Callable[[Path], object]:
    return lambda directory: read(data if isinstance(data, bytes) else data(), directory / PATH)


LONGS = b"\x72\x00\x02[J" + struct.pack(">Q", ALL_CLASSES["[J"].suid) + b"\x02\x00\x00\x78\x70"
CUT = "Java stream ends inside an element"
STREAMS: list[tuple[str, bytes, str, int]] = [
    ("nothing", b"", CUT, 4),
    ("a text that is cut", b"\x74\x00\x05abc", CUT, 7),
    ("a length that is cut", b"\x74\x00", CUT, 5),
    ("a text beyond the file", b"\x7c" + b"\x7f" * 8, CUT, 13),
    ("a negative length", b"\x7c" + b"\xff" * 8, CUT, 13),
    ("an array beyond the file", b"\x75" + LONGS + b"\x7f\xff\xff\xff", CUT, 27),
    ("an array of negative length", b"\x75" + LONGS + b"\xff\xff\xff\xff", CUT, 27),
    ("no modified UTF-8", b"\x74\x00\x01\xff", "text is not modified UTF-8", 7),
    ("an unknown handle", b"\x71\x00\x7e\x00\x00", "reference to a handle that does not exist", 5),
    ("a handle below all", b"\x71\x00\x00\x00\x00", "reference to a handle that does not exist", 5),
    ("tag 7B", b"\x7b", "unexpected type tag", 4),
    ("tag 7D", b"\x73\x7d", "byte does not start a class descriptor", 5),
    ("tag 7E", b"\x7e", "unexpected type tag", 4),
    ("a block for a value", b"\x77\x01a", "unexpected type tag", 4),
    ("a null class", b"\x73\x70", "class descriptor is null", 5),
    ("bytes after the end", b"\x70\x70", "bytes after the end of the Java stream", 5),
    ("another serialVersionUID", b"\x73" + LONGS.replace(b"\x78\x20", b"\x78\x21"),
     "class [J has an unexpected serialVersionUID", 5),
    ("other flags", b"\x73" + LONGS.replace(b"\x02\x00\x00\x78", b"\x03\x00\x00\x78"),
     "class [J is declared with other fields", 5),
]  # fmt: skip


def _map_inside_itself() -> bytes:
    writer = Writer()
    handle = writer.map_head(1)
    writer.string("me")
    writer.reference(handle)
    writer.map_end()
    return bytes(writer.out)


def nested(levels: int) -> dict[str, Any]:
    """Maps within maps."""
    return {"in": nested(levels - 1)} if levels else {}


def _one_entry_less() -> bytes:
    good = dumps({"a": None})
    return good.replace(b"\x00\x00\x00\x10\x00\x00\x00\x01", b"\x00\x00\x00\x10\x00\x00\x00\x02")


def _class(name: str) -> bytes:
    return STREAM_HEADER + b"\x73\x72" + utf(name) + bytes(8) + b"\x02\x00\x00\x78\x70"


def _tag_is_refused(tbl: bytes) -> bytes:
    return tbl[:SETS] + b"\x77\x32\xfe" + tbl[SETS + 3 :]


SIZE: dict[str, Any] = {
    "version": JInt(1),
    "size": JLong(1),
    "lastModificationTime": JLong(5),
    "dataFileSizes": {"C.dat": JLong(4)},
    "sourceState": None,
    "importState": None,
    "columnVersion": JInt(1),
}
SIZES: list[tuple[str, dict[str, Any], str]] = [
    ("version of another type", {"version": JLong(1)}, "version"),
    ("no size", {"size": None}, "size"),
    ("a negative size", {"size": JLong(-1)}, "size"),
    ("no lengths", {"dataFileSizes": None}, "dataFileSizes"),
    ("a path separator", {"dataFileSizes": {"../C.dat": JLong(4)}}, "dataFileSizes"),
    ("the other separator", {"dataFileSizes": {"a\\C.dat": JLong(4)}}, "dataFileSizes"),
    ("a negative length", {"dataFileSizes": {"C.dat": JLong(-4)}}, "dataFileSizes"),
    ("a length of another type", {"dataFileSizes": {"C.dat": JInt(4)}}, "dataFileSizes"),
    ("a position that is no text", {"sourceState": {"a": JInt(4)}}, "sourceState"),
    ("a mark of another type", {"truncated": "yes"}, "truncated"),
]
TBL = (GOLDEN / "splayed.tbl").read_bytes()
SETS = len(column_sets())
TBLS: list[tuple[str, str, bytes, type[SparkhavenError], str]] = [
    ("any stream: end", "empty", b"", C, "file is not a table.tbl"),
    ("any stream: start", "with a stream header", STREAM_HEADER + TBL, C, "file is not a table.tbl"),
    (".tbl: tag", "tag FD", b"\x77\x01\xfd" + TBL[3:], C, "unexpected tag at the top level"),
    (".tbl: tag", "FE for FF", _tag_is_refused(TBL), C, "unexpected tag at the top level"),
    (".tbl: trailing bytes", "a block", TBL + b"\x77\x01\x00", C, "bytes after the end of the definition"),
    (".tbl: trailing bytes", "null", TBL + b"\x70", C, "bytes after the end of the definition"),
    (".tbl: double name", "Date twice", TBL.replace(b"\x00\x03Sym", b"\x00\x03Foo").replace(b"\x04Note", b"\x04Date"),
     C, "duplicate column name"),
    (".tbl: SUID", "of the column sets", TBL.replace(bytes.fromhex("e059882c782b33a7"), bytes(8)), C,
     "class [Lio.deephaven.dataobjects.DataObjectColumnSet; has an unexpected serialVersionUID"),
    ("any stream: class", "no definition", TBL.replace(b"TableDefinition\x00\x02NS", b"TableDefinitiom\x00\x02NS"), V,
     "file does not contain a table definition"),
    (".tbl: code", "storage type", TBL[:-1] + b"\x03", V, "unknown storage type in a table definition"),
    (".tbl: code", "column type", TBL.replace(b"\x77\x04\x00\x00\x00\x02\x71", b"\x77\x04\x00\x00\x00\x03\x71"), V,
     "unknown column type of Sym in a table definition"),
    (".tbl: code", "charset", TBL.replace(b"\x77\x10\x80\x00\x00\x00", b"\x77\x10\x00\x00\x00\x03", 1), V,
     "column Date has an unknown charset code"),
]  # fmt: skip
ENTRY = IndexEntry(LocationKey("0", "2017-08-04"), 11132, 5)
INDEX = encode_tlmi([ENTRY])


def _head(version: int, count: int) -> bytes:
    return struct.pack(">Iii", MAGIC, version, count)


TLMIS: list[tuple[str, str, bytes, type[SparkhavenError], str]] = [
    ("cut short", "empty", b"", C, "location index is cut short"),
    ("cut short", "a byte less", INDEX[:-1], C, "location index is cut short"),
    ("trailing bytes", "a byte more", INDEX + b"\0", C, "bytes after the last entry"),
    ("trailing bytes", "version 1", _head(1, 1) + INDEX[12:-1], C, "bytes after the last entry"),
    ("magic", "another", b"\0" + INDEX[1:], C, "file is not a location index"),
    ("version", "3", _head(3, 0), V, "location index has an unknown version"),
    ("version", "0", _head(0, 0), V, "location index has an unknown version"),
    ("count", "negative", _head(2, -1), C, "invalid entry count"),
    ("count", "more than the rest can hold", _head(2, 2) + INDEX[12:], C, "invalid entry count"),
    ("key twice", "the same", _head(2, 2) + INDEX[12:] * 2, C, "duplicate location in the location index"),
    ("rows", "-1", encode_tlmi([replace(ENTRY, rows=-1)]), C, "negative row count"),
    ("format", "ORC", encode_tlmi([replace(ENTRY, format="ORC")]), V, "unknown format in the location index"),
    ("name", "..", encode_tlmi([replace(ENTRY, key=LocationKey("..", "x"))]), C,
     "name in the location index is not a valid directory name"),
]  # fmt: skip
ROW_SETS = [
    ("no END", "", "row set has no end"),
    ("no END", "0C 03", "row set has no end"),
    ("bytes after END", "20 20", "bytes follow the end of a row set"),
    ("unknown command", "0D 03 20", "unknown command of a row set"),
    ("unknown command", "28 20", "unknown command of a row set"),
    ("cut short", "0C", "row set is cut short"),
    ("cut short", "09 01", "row set is cut short"),
    ("cut short", "1C 04 00 FC 20", "row set is cut short"),
    ("cut short", "14 FF 20", "row set is cut short"),
    ("first delta", "0C FC 20", "distances of a row set are not those of ranges"),
    ("two range ends", "1C 03 00 FC FC 20", "distances of a row set are not those of ranges"),
    ("two range ends", "1C 02 03 00 20", "distances of a row set are not those of ranges"),
    ("beyond the location", "0C 09 20", "a position of a row set is beyond the location"),
]
FORM, LEAVES = "footer entry deephaven has another form", "path of an index leaves the directory"
FOOTERS = [
    ("malformed", b"", FORM),
    ("malformed", b"{", FORM),
    ("malformed", b"[]", FORM),
    ("malformed", b'{"version": ""}', FORM),
    ("malformed", b'{"dataIndexes": []}', FORM),
    ("malformed", b'{"version": "9", "dataIndexes": [{"columns": ["A"]}]}', FORM),
    *(
        ("indexTablePath", b'{"version":"9","dataIndexes":[{"columns":["A"],"indexTablePath":"%s"}]}' % path, LEAVES)
        for path in (b"/etc/x", b"../x", b"a/../../x", b"a\\\\..\\\\x")
    ),
]

RECORDS = (
    Rejected("any stream: start", "zeros", _of(loads, bytes(8)), C, "file does not start with a Java stream header"),
    *(
        Rejected("any stream: grammar", kind, _of(loads, STREAM_HEADER + data), C, what, f", byte {offset}")
        for kind, data, what, offset in STREAMS
    ),
    Rejected("any stream: handle", "itself", _of(loads, _map_inside_itself), C, "value refers to an enclosing value"),
    Rejected("any stream: nesting", "100 maps", _of(loads, lambda: dumps(nested(100))), C, "values are nested too"),
    Rejected("any stream: length", "of a map", _of(loads, _one_entry_less), C, "number of map entries differs"),
    *(
        Rejected("any stream: class", n, _of(loads, _class(n)), V, f"Java class {n!r} is not allowed in this file")
        for n in ("java.util.ArrayList", "com.example.Gadget")
    ),
    Rejected("table.size: empty", "", _of(table_size.decode, b""), C, "table.size is empty"),
    Rejected("table.size: version", "7", _of(table_size.decode, lambda: dumps(SIZE | {"version": JInt(7)})), V,
             "table.size has an unknown version", ", byte 4"),
    *(
        Rejected("table.size: value", kind, _of(table_size.decode, dumps(SIZE | change)), C,
                 f"table.size has a wrong value for {key!r}")
        for kind, change, key in SIZES
    ),
    *(
        Rejected("table.size: key", f"no {key}", _of(table_size.decode, dumps({n: SIZE[n] for n in SIZE if n != key})),
                 C, f"table.size has a wrong value for {key!r}")
        for key in SIZE
    ),
    *(Rejected(row, kind, _of(decode_tbl, data), error, what, ", byte ") for row, kind, data, error, what in TBLS),
    *(
        Rejected(f".tlmi: {row}", kind, _of(decode_tlmi, data), error, what, ", byte ")
        for row, kind, data, error, what in TLMIS
    ),
    *(
        Rejected(f"row set: {row}", text, _of(lambda data, where: decode_rows(data, where, 9), bytes.fromhex(text)),
                 C, what)
        for row, text, what in ROW_SETS
    ),
    *(
        Rejected(f"Parquet: {row}", data.decode(), _of(decode_footer, data), C, what)
        for row, data, what in FOOTERS
    ),
)  # fmt: skip
