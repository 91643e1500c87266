"""Column files, groupings, Parquet files and trees that readers must reject, each crafted below a directory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sparkhaven.store.errors import CorruptFileError, SchemaMismatchError, UnsupportedVersionError
from sparkhaven.store.format.column.prefix import encode_prefix
from sparkhaven.store.format.index.grouping import GroupRanges, encode_ovr, read_map
from sparkhaven.store.format.java.java_values import JInt, JLong, JMap, JNumbers
from sparkhaven.store.format.java.object_writer import dumps
from sparkhaven.store.format.parquet.trees import LOCATIONS_TABLES
from sparkhaven.store.scan.column_file import open_parquet, read_column, read_grouping
from sparkhaven.store.schema.document.schema_file import parse_schema
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage
from sparkhaven.writers.transfer.trees import find_tree
from tests.support.tables.column_cases import FS, NOTE, SIZE, SYM, write
from tests.support.tables.column_files import add_grouping
from tests.support.tables.rejected_records import Rejected
from tests.support.writers.import_cases import SMALL
from tests.support.writers.import_cases import write as write_leaf

C, V, S = CorruptFileError, UnsupportedVersionError, SchemaMismatchError
PREFIX: dict[str, Any] = {
    "version": JInt(1),
    "byteOrder": "LITTLE_ENDIAN",
    "dataOffset": JLong(4096),
    "dataType": "int",
    "width": JInt(4),
    "columnId": JInt(3),
    "overflow": False,
    "metadata": None,
}
TAGS = Column("Tags", data_type("StringSet"), Kind.NORMAL, Storage.SET, 5, "UTF_8")
DAY = Column("Day", data_type("LocalDate", None, "Compact"), Kind.NORMAL, Storage.FIXED, 6, codec_args="Compact")
CLOCK = Column("Clock", data_type("LocalTime"), Kind.NORMAL, Storage.FIXED, 7)
RAW = Column("Raw", data_type("double[]"), Kind.NORMAL, Storage.BLOB, 8)
VALUES: dict[str, list[Any]] = {
    "Sym": ["AAPL", None, "é"],
    "Note": ["hi", None, "é"],
    "Tags": [["a", "b"], [], ["a"]],
    "Day": [0, 1, 2],
    "Clock": [0, 1, 2],
    "Raw": [[1.5], None, []],
}
ASCII = replace(NOTE, encoding="US_ASCII")
Read = Callable[[Path], object]


def prefix_of(entries: dict[str, Any]) -> Callable[[Path], pa.Array]:
    """Reads three numbers behind a prefix with these entries."""

    def read(directory: Path) -> pa.Array:
        FS.write_new(directory / "Size.dat", dumps(entries).ljust(4096, b"\0") + np.arange(3, dtype="<i4").tobytes())
        return read_column(FS, directory, SIZE, {"Size.dat": 12}, 3)

    return read


def _changed(**change: Any) -> Read:
    return prefix_of(PREFIX | change)


def _without(key: str) -> Read:
    return prefix_of({name: value for name, value in PREFIX.items() if name != key})


def _foreign(directory: Path) -> object:
    prefix = b"\xac\xed\x00\x05\x73\x72\x00\x09com.Other" + bytes(8) + b"\x02\x00\x00\x78\x70"
    FS.write_new(directory / "Size.dat", prefix.ljust(5000, b"\0"))
    return read_column(FS, directory, SIZE, {"Size.dat": 12}, 3)


def damaged(column: Column, name: str, offset: int, data: bytes, *, declared: Column | None = None) -> Read:
    """Reads three values after bytes of one of their files were overwritten."""

    def read(directory: Path) -> object:
        sizes = write(directory, column, VALUES[column.name])
        FS.write_at(directory / name, offset, data)
        return read_column(FS, directory, declared or column, sizes, 3)

    return read


def _sized(column: Column, **changed: int) -> Read:
    """Reads with other committed lengths; ``Note_dat`` stands for ``Note.dat``."""

    def read(directory: Path) -> object:
        sizes = write(directory, column, VALUES[column.name])
        return read_column(FS, directory, column, sizes | {n.replace("_", "."): s for n, s in changed.items()}, 3)

    return read


def _short(column: Column) -> Read:
    def read(directory: Path) -> object:
        sizes = write(directory, column, VALUES[column.name])
        FS.truncate(directory / column.files[0], HEAD + sizes[column.files[0]] - 1)
        return read_column(FS, directory, column, sizes, 3)

    return read


def _lost(column: Column, name: str) -> Read:
    def read(directory: Path) -> object:
        sizes = write(directory, column, VALUES[column.name])
        (directory / name).unlink()
        return read_column(FS, directory, column, sizes, 3)

    return read


def _not_listed(directory: Path) -> object:
    sizes = write(directory, NOTE, VALUES["Note"])
    del sizes["Note.bytes"]
    return read_column(FS, directory, NOTE, sizes, 3)


def _declared(column: Column) -> Read:
    return damaged(NOTE, "Note.dat", 4095, b"\0", declared=column)


def _grouped(ranges: GroupRanges | None = None, more: bytes = b"") -> Read:
    """Reads the grouping of six rows; None: the flag is set and the file is missing."""

    def read(directory: Path) -> object:
        directory.mkdir(exist_ok=True)
        FS.write_new(directory / "Sym.dat", encode_prefix(SYM))
        if ranges is None:
            FS.write_at(directory / "Sym.dat", 0, encode_prefix(SYM, overflow=True))
        else:
            add_grouping(FS, directory, SYM, ranges)
            FS.write_new(directory / "Sym.ovr", encode_ovr(ranges) + more)
        return read_grouping(FS, directory, SYM, 6)

    return read


def _ranges(starts: list[int], stops: list[int], keys: str = "ab") -> GroupRanges:
    table = np.array([starts, stops], np.int64)
    return GroupRanges(list(keys[: len(starts)]), table[0], table[1], SYM.type)


def _mixed(*entries: tuple[Any, Any]) -> Read:
    return lambda directory: read_map(JMap(list(entries)), SYM.type, directory / "Sym.ovr")


def _not_a_map(directory: Path) -> object:
    FS.write_new(directory / "Sym.dat", encode_prefix(SYM, overflow=True))
    FS.write_new(directory / "Sym.ovr", b"\xac\xed\x00\x05\x70")
    return read_grouping(FS, directory, SYM, 6)


def _pair(kind: str, *numbers: float) -> JNumbers:
    return JNumbers(kind, np.array(numbers))


def _parquet(rows: int) -> Read:
    def read(directory: Path) -> object:
        path = directory / "table.parquet"
        pq.write_table(pa.table({"Size": pa.array([1, 2], pa.int32())}), path)
        return open_parquet(FS, directory, {path.name: path.stat().st_size - (rows < 0)}, abs(rows))

    return read


def _tree(*names: str, metadata: str | None = None, tables: tuple[str, ...] = ()) -> Read:
    """Finds the leaves of a tree of these files; ``metadata``: what its ``_metadata`` names."""

    def read(directory: Path) -> object:
        schema, root = parse_schema(SMALL % b"int", "NS.T.schema").schema, directory / "tree"
        write_leaf(directory / "out.parquet", [1])
        for name in names:
            write_leaf(root / name, [1])
        (root / "link").symlink_to(directory)
        if metadata is not None:
            footer = pq.read_metadata(directory / "out.parquet")
            footer.set_file_path(metadata)
            pq.write_metadata(footer.schema.to_arrow_schema(), root / "_metadata", metadata_collector=[footer])
        for name in tables:
            (root / name).mkdir()
        if metadata is None:
            (root / "link").unlink()
        return find_tree(FS, root, schema)

    return read


HEAD = 4096
END = "end of a value is negative, before its predecessor or beyond the committed bytes"
VALUE, TEXT = "bytes stand for no value of the column's codec", "bytes are not text in the column's charset"
SYMBOL, RANGE = "row has a symbol that is not in the table", "grouping range is empty, out of order, overlaps or leaves"
SHORTER = "file is shorter than its committed length"
STORED = "is declared one way and stored another"
PAIRS, TYPES = "grouping range does not have two ends", "grouping map has keys or ranges of mixed or wrong types"
OUTSIDE, BESIDE = "row group of _metadata names a file outside of the tree", "the tree contradicts itself"
LEAF = "Date=d/a.parquet"

COLUMNS = (
    Rejected(".dat: another writer", "another map", prefix_of({"magic": "other"}), V,
             "prefix was written by another program", "Size.dat, byte 4"),
    Rejected(".dat: another writer", "another class", _foreign, V, "prefix was written by another program",
             "Size.dat, byte 4"),
    Rejected(".dat: version", "2", _changed(version=JInt(2)), V, "prefix has an unknown version", "Size.dat, byte 4"),
    *(
        Rejected(".dat: key", f"no {key}", _without(key), C, f"prefix key {key!r} is missing or of another type")
        for key in ("byteOrder", "dataOffset", "dataType", "width", "overflow")
    ),
    Rejected(".dat: key", "no metadata", _without("metadata"), C, "grouping is missing or occurs twice"),
    *(
        Rejected(".dat: key", f"{key} {value!r}", _changed(**{key: value}), C,
                 f"prefix key {key!r} is missing or of another type", "Size.dat, byte 4")
        for key, value in (("version", None), ("version", JLong(1)), ("dataType", JInt(4)), ("overflow", None),
                           ("metadata", "x"))
    ),
    Rejected(".dat: byteOrder", "MIDDLE", _changed(byteOrder="MIDDLE"), C, "unknown byte order", "Size.dat, byte 4"),
    *(
        Rejected(".dat: dataOffset", str(offset), _changed(dataOffset=JLong(offset)), C, "invalid data offset")
        for offset in (4097, 0, (64 << 20) + HEAD)
    ),
    Rejected(".dat: dataOffset", "beyond the file", _changed(dataOffset=JLong(8192)), C, SHORTER),
    *(
        Rejected(".dat: disagree", name, _changed(**change), S,
                 "type, width and charset of the prefix contradict each other", "Size.dat, byte 4")
        for name, change in (("width", {"width": JInt(8)}), ("encoding", {"encoding": "UTF_8"}))
    ),
    Rejected(".dat: disagree", "type", _changed(dataType="float"), S, f"column Size {STORED}"),
    Rejected(".dat: disagree", "charset", _declared(ASCII), S, f"column Note {STORED}"),
    Rejected(".dat: disagree", "storage", _declared(replace(NOTE, storage=Storage.SYMBOL)), S, f"column Note {STORED}"),
    Rejected(".dat: length", "shorter", _short(NOTE), C, SHORTER),
    Rejected(".dat: length", "rows times width", _sized(NOTE, Note_dat=20), C,
             "committed bytes are not rows times width", "Note.dat"),
    Rejected("companion: missing", ".bytes", _lost(NOTE, "Note.bytes"), C, "a committed file is missing"),
    Rejected("companion: missing", ".sym", _lost(SYM, "Sym.sym"), C, "a committed file is missing"),
    Rejected("companion: missing", "not listed", _not_listed, C, "companion file has no committed length"),
    Rejected("companion: length", "shorter", _sized(NOTE, Note_bytes=9), C, SHORTER),
    Rejected("companion: length", "no multiple of 8", _sized(SYM, Sym_sym=12), C, "symbol offsets are truncated"),
    Rejected(".sym: end", "negative", damaged(SYM, "Sym.sym", 7, b"\x80"), C, END, "Sym.sym, entry 0"),
    Rejected(".sym: end", "before its predecessor", damaged(SYM, "Sym.sym", 8, b"\3"), C, END, "Sym.sym, entry 1"),
    Rejected(".sym: end", "beyond the bytes", damaged(SYM, "Sym.sym", 8, b"\x7f"), C, END, "Sym.sym, entry 1"),
    Rejected(".sym: end", "the last one", damaged(SYM, "Sym.sym", 8, b"\4"), C,
             "last symbol does not end with the committed bytes", "Sym.sym, entry 1"),
    Rejected("blob .dat: end", "negative", damaged(NOTE, "Note.dat", HEAD + 7, b"\x80"), C, END, "Note.dat, entry 0"),
    Rejected("blob .dat: end", "before its predecessor", damaged(NOTE, "Note.dat", HEAD + 8, b"\1"), C, END,
             "Note.dat, entry 1, byte 8 of the data"),
    Rejected("blob .dat: end", "beyond the bytes", damaged(RAW, "Raw.dat", HEAD + 8, b"\x7f\x7f"), C, END,
             "Raw.dat, entry 1"),
    Rejected("blob .dat: end", "the last one", damaged(NOTE, "Note.dat", HEAD + 16, b"\x09"), C,
             "last value does not end with the committed bytes", "Note.dat, row 2"),
    Rejected("symbol .dat: index", "beyond", damaged(SYM, "Sym.dat", HEAD + 4, b"\2\0\0\0"), C, SYMBOL,
             "Sym.dat, row 1"),
    Rejected("symbol .dat: index", "negative", damaged(SYM, "Sym.dat", HEAD + 8, b"\xff" * 4), C, SYMBOL,
             "Sym.dat, row 2"),
    Rejected("SymbolSet: bit", "of no symbol", damaged(TAGS, "Tags.dat", HEAD + 8, b"\4"), C,
             "set has a bit of no symbol", "Tags.dat, row 1"),
    Rejected("text: charset", "a symbol", damaged(SYM, "Sym.sym.bytes", 5, b"\xff"), C, TEXT, "Sym.sym, entry 1"),
    Rejected("text: charset", "a text", damaged(NOTE, "Note.bytes", 3, b"x"), C, TEXT, "Note.dat, row 2"),
    Rejected("text: charset", "of a set", damaged(TAGS, "Tags.sym.bytes", 1, b"\xff"), C, TEXT, "Tags.sym, entry 1"),
    Rejected("codec: width", "5 bytes for 3",
             damaged(DAY, "Day.dat", HEAD, b"\0", declared=replace(DAY, type=data_type("LocalDate"))), S,
             f"column Day {STORED}"),
    Rejected("codec: value", "month 13", damaged(DAY, "Day.dat", HEAD + 3, bytes.fromhex("0FC5A4")), C, VALUE,
             "Day.dat, row 1"),
    Rejected("codec: value", "hour 25", damaged(CLOCK, "Clock.dat", HEAD + 12, b"\x64" + bytes(5)), C, VALUE,
             "Clock.dat, row 2"),
    Rejected("codec: value", "no Java stream", damaged(RAW, "Raw.bytes", 0, b"\0"), C, VALUE, "Raw.dat, row 0"),
    Rejected(".ovr: missing", "", _grouped(), C, "a committed file is missing", "Sym.ovr"),
    Rejected(".ovr: bytes after", "", _grouped(_ranges([0, 2], [2, 6]), b"\0"), C, "bytes after the end of the Java"),
    Rejected(".ovr: no map", "", _not_a_map, C, "overflow file does not contain a map", "Sym.ovr"),
    *(
        Rejected(f"grouping: {row}", f"{starts} {stops}", _grouped(_ranges(starts, stops)), C, what, "Sym.ovr, entry ")
        for row, starts, stops, what in (
            ("empty", [0, 2], [2, 2], RANGE), ("gap", [0, 3], [2, 6], RANGE), ("overlap", [0, 1], [2, 6], RANGE),
            ("order", [2, 0], [6, 2], RANGE), ("negative", [-1, 2], [2, 6], RANGE),
            ("sum", [0, 2], [2, 5], "grouping ranges do not cover the location"),
            ("sum", [0, 2], [2, 7], "grouping ranges do not cover the location"),
            ("sum", [], [], "grouping ranges do not cover the location"),
        )
    ),
    Rejected("grouping: key twice", "a", _grouped(_ranges([0, 2], [2, 6], "aa")), C, "a grouping key comes twice",
             "Sym.ovr, entry 1"),
    *(
        Rejected("grouping: types", kind, _mixed(*entries), C, what)
        for kind, entries, what in (
            ("keys", [("a", _pair("[J", 0, 1)), (JInt(1), _pair("[J", 1, 2))], TYPES),
            ("ranges", [("a", _pair("[J", 0, 1)), ("b", _pair("[I", 1, 2))], TYPES),
            ("of another column", [(JInt(1), _pair("[J", 0, 1))], TYPES),
            ("a text", [("a", "b")], TYPES), ("null", [("a", None)], TYPES),
            ("doubles", [("a", _pair("[D", 0.0, 1.0))], TYPES), ("three ends", [("a", _pair("[J", 0, 1, 2))], PAIRS),
        )
    ),
    Rejected("Parquet: rows", "3 of 2", _parquet(3), C, "Parquet file has another number of rows than its location"),
    Rejected("Parquet: footer", "cut", _parquet(-2), C, "Parquet file is damaged"),
    Rejected("Extended: level", "without =", _tree(LEAF, "other/a.parquet"), C, BESIDE, "tree/other"),
    Rejected("Extended: level", "another key", _tree(LEAF, "Day=d/a.parquet"), C, BESIDE, "tree/Day=d"),
    Rejected("Extended: depth", "one level more", _tree(LEAF, "Date=d/Sym=x/b.parquet"), C, BESIDE, "tree/Date=d/"),
    *(
        Rejected("Extended: row groups outside", name, _tree(LEAF, metadata=name), C, OUTSIDE, "tree/_metadata")
        for name in ("../out.parquet", "/etc/passwd", "Date=d/../../out.parquet", "link/out.parquet", "")
    ),
    Rejected("Extended: Locations tables", "both", _tree(LEAF, tables=LOCATIONS_TABLES), C,
             "the tree has two Locations tables", "tree"),
)  # fmt: skip
