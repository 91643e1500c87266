"""Annotated bytes for the pages of ``docs/format``: what our own writers write, part by part.

A part is a length and what it means. Parts that do not add up to the bytes are an error, so a page that is out of step
with the code cannot be made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.store.format.column.codecs import Base, encode_column
from sparkhaven.store.format.column.prefix import encode_prefix
from sparkhaven.store.format.index.grouping import GroupRanges, encode_ovr
from sparkhaven.store.format.index.tlmi import IndexEntry, encode_tlmi
from sparkhaven.store.framing import LOG_MAGIC, frame, header
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.types.codings.row_set import encode_rows
from sparkhaven.store.types.datatypes import BY_NAME, data_type
from sparkhaven.store.types.model import Column, Kind, Storage
from tools.docs.markdown import code, table

Part = tuple[int, str]
SHOWN = 16  # bytes of a part that a row shows at most
HEAD = ("offset", "bytes", "meaning")


def annotated(data: bytes, parts: Sequence[Part]) -> str:
    """A row a part. ValueError: the parts are not all of the bytes."""
    total = sum(length for length, _ in parts)
    if total != len(data):
        raise ValueError(f"parts have {total} bytes, the data {len(data)}")
    rows, offset = [], 0
    for length, meaning in parts:
        shown = data[offset : offset + min(length, SHOWN)].hex(" ").upper() + (" …" if length > SHOWN else "")
        rows.append((code(f"{offset:04X}"), code(shown), meaning))
        offset += length
    return table(HEAD, rows)


def marked(data: bytes, marks: Sequence[tuple[bytes | int, str]]) -> str:
    """Parts that begin at offsets, or where bytes come next; each ends where the following begins."""
    starts: list[int] = []
    for mark, _ in marks:
        starts.append(mark if isinstance(mark, int) else data.index(mark, starts[-1] + 1 if starts else 0))
    lengths = [stop - start for start, stop in pairwise([*starts, len(data)])]
    return annotated(data, list(zip(lengths, (meaning for _, meaning in marks), strict=True)))


def _key(name: str) -> bytes:
    """A text as a stream has it."""
    return b"t" + len(name).to_bytes(2, "big") + name.encode()


def prefix_dump() -> str:
    """The prefix of an int column."""
    column = Column("Size", BY_NAME["int"], Kind.NORMAL, Storage.FIXED, 3)
    data = encode_prefix(column)
    values = {
        "version": "an `Integer` with the descriptions of its class and of `Number`: 1",
        "byteOrder": "the order of the data",
        "dataOffset": "a `Long`: row 0 is at 4096",
        "dataType": "the type",
        "width": "an `Integer`, its class by reference: 4 bytes a row",
        "columnId": "number of the column in the history of the schema: 3",
        "overflow": "a `Boolean`: there is no `.ovr`",
        "metadata": "null: no grouping",
    }
    marks: list[tuple[bytes | int, str]] = [
        (0, "header of a Java stream"),
        (4, "an object: descriptions of `LinkedHashMap` and of its superclass `HashMap`"),
        (bytes.fromhex("3F400000"), "load factor 0.75, threshold 12"),
        (bytes.fromhex("7708"), "a block of 8 bytes: 16 buckets, 8 entries"),
    ]
    for name, meaning in values.items():
        marks += [(_key(name), f"key `{name}`"), (data.index(_key(name)) + 3 + len(name), meaning)]
    end = data.index(_key("metadata")) + 3 + len("metadata") + 1
    return marked(data, [*marks, (end, "end of the entries, `accessOrder` false"), (end + 2, "zeros up to row 0")])


def _files(column: Column, values: list[Any]) -> dict[str, bytes]:
    kind = pa.string() if column.type.name == "String" else column.type.arrow
    encoded = encode_column(column, pa.array(values, kind), Base())
    return {name: bytes(data) for name, data in encoded.parts.items()}


def symbol_dump() -> str:
    """The files of a symbol column with the rows AAPL, null, MSFT, empty."""
    column = Column("Sym", BY_NAME["String"], Kind.NORMAL, Storage.SYMBOL, 1, "UTF_8")
    files = _files(column, ["AAPL", None, "MSFT", ""])
    parts: dict[str, list[Part]] = {
        "Sym.sym.bytes": [(4, "symbol 0"), (4, "symbol 1"), (1, "symbol 2, the empty text")],
        "Sym.sym": [(8, "symbol 0 ends at 4"), (8, "symbol 1 ends at 8"), (8, "symbol 2 ends at 9")],
        "Sym.dat": [(4, "row 0: symbol 0"), (4, "row 1: null"), (4, "row 2: symbol 1"), (4, "row 3: symbol 2")],
    }
    return _dumps(files, parts)


def blob_dump() -> str:
    """The files of a blob column with the rows hi, null, empty, é."""
    column = Column("Note", BY_NAME["String"], Kind.NORMAL, Storage.BLOB, 1, "UTF_8")
    files = _files(column, ["hi", None, "", "é"])
    parts: dict[str, list[Part]] = {
        "Note.bytes": [(2, "row 0"), (1, "row 2, the empty text"), (2, "row 3 in UTF-8")],
        "Note.dat": [
            (8, "row 0 ends at 2"),
            (8, "row 1: no bytes, null"),
            (8, "row 2 ends at 3"),
            (8, "row 3 ends at 5"),
        ],
    }
    return _dumps(files, parts)


def set_dump() -> str:
    """The files of a column of sets."""
    column = Column("Tags", data_type("StringSet"), Kind.NORMAL, Storage.SET, 1, "UTF_8")
    files = _files(column, [["hot", "new"], [], ["new"]])
    parts: dict[str, list[Part]] = {
        "Tags.sym.bytes": [(3, "bit 0: hot"), (3, "bit 1: new")],
        "Tags.sym": [(8, "bit 0 ends at 3"), (8, "bit 1 ends at 6")],
        "Tags.dat": [(8, "row 0: bits 0 and 1"), (8, "row 1: the empty set"), (8, "row 2: bit 1")],
    }
    return _dumps(files, parts)


def _dumps(files: dict[str, bytes], parts: dict[str, list[Part]]) -> str:
    return "\n".join(f"{code(name)}\n\n{annotated(data, parts[name])}" for name, data in files.items())


def codec_dump() -> str:
    """One value of each codec."""
    cases: list[tuple[str, str | None, str | None, Any, str]] = [
        ("LocalDate", None, "Compact", date(2017, 8, 4), "2017-08-04"),
        ("LocalDate", None, "Full", date(2017, 8, 4), "2017-08-04"),
        ("LocalTime", None, "9", 48_600_500_000_000, "13:30:00.5"),
        ("LocalTime", None, "3", 48_600_500_000_000, "13:30:00.5"),
        ("BigDecimal", None, "20,8", Decimal("12.34"), "12.34"),
        ("BigDecimal", None, "20,8", Decimal("-12.34"), "−12.34"),
        ("BigDecimal", None, None, "12.34", "12.34"),
        ("BigInteger", None, "18", Decimal(5), "5"),
        ("byte[]", "ByteArrayCodec", "2", b"\x01\x02", "01 02"),
        ("java.util.Map", None, None, [("a", 1.5)], '{"a": 1.5}'),
        ("double[]", None, None, [1.5, None], "[1.5, null]"),
        ("String[]", None, None, ["a", None], '["a", null]'),
        ("Instant[]", None, None, [1, None], "[1970-01-01T00:00:00.000000001Z, null]"),
        ("RowSet", None, None, b"\x0c\x03\x20", "{3}"),
    ]
    rows = []
    for spelling, codec, arguments, value, shown in cases:
        kind = data_type(spelling, codec, arguments)
        counts = pa.types.is_time(kind.arrow)
        array = pa.array([value], pa.int64()).view(kind.arrow) if counts else pa.array([value], kind.arrow)
        assert kind.coding is not None  # noqa: S101
        storage = Storage.FIXED if kind.fixed else Storage.BLOB
        data = encode_column(Column("X", kind, Kind.NORMAL, storage, 1), array, Base()).parts
        name = "X.dat" if kind.fixed else "X.bytes"
        null = code(kind.fixed.null.hex(" ").upper()) if kind.fixed else "no bytes"
        given = (kind.origin.codec or "none").rpartition(".")[2] if kind.origin else ""
        rows.append(
            (
                code(spelling),
                f"{code(given)} {code(arguments or '')}",
                shown,
                code(bytes(data[name]).hex(" ").upper()),
                null,
            )
        )
    return table(("type", "codec", "value", "bytes", "null"), rows)


def grouping_dump() -> str:
    """The overflow file of a column with three groups."""
    starts, stops = np.array([0, 1, 4]), np.array([1, 4, 6])
    data = encode_ovr(GroupRanges((None, "AAPL", "MSFT"), starts, stops, BY_NAME["String"]))
    return marked(
        data,
        [
            (0, "header of a Java stream"),
            (4, "a `LinkedHashMap` of 3 entries, as in a prefix"),
            (b"pur", "key null"),
            (b"ur", "its range: a `long[2]` with the description of its class, 0 and 1"),
            (_key("AAPL"), "key `AAPL`"),
            (b"uq", "its range, 1 and 4"),
            (_key("MSFT"), "key `MSFT`"),
            (b"uq", "its range, 4 and 6"),
            (len(data) - 2, "end of the entries, `accessOrder` false"),
        ],
    )


def tlmi_dump() -> str:
    """The location index of a table with one location."""
    data = encode_tlmi([IndexEntry(LocationKey("0", "2017-08-04"), 11132, 1528385769565)])
    return annotated(
        data,
        [
            (4, "magic"),
            (4, "version"),
            (4, "entries"),
            (3, "internal partition"),
            (12, "partition value"),
            (11, "format"),
            (8, "rows"),
            (8, "modified, in milliseconds"),
        ],
    )


def row_set_dump() -> str:
    """Row sets of one and of several ranges."""
    rows = []
    for pairs in ([(3, 4)], [(300, 301)], [(0, 5)], [(100_000, 3_000_001)], [(1, 2), (5, 6), (300, 303), (900, 901)]):
        ranges = np.array(pairs, np.int64)
        texts = [f"{start} to {stop - 1}" for start, stop in pairs]
        rows.append((", ".join(texts), code(encode_rows(ranges[:, 0], ranges[:, 1]).hex(" ").upper())))
    return table(("rows", "bytes"), rows)


def log_dump() -> str:
    """A log of one record."""
    payload = b'{"epoch":1,"type":"example"}'
    data = header(LOG_MAGIC, 0) + frame(payload)
    return annotated(
        data,
        [
            (8, "magic; its last digit is the version"),
            (8, "epoch before the first record"),
            (4, "length of the payload"),
            (4, "CRC-32 of the payload"),
            (len(payload), "payload: canonical JSON"),
        ],
    )


DUMPS: dict[str, Callable[[], str]] = {
    "dump_blob": blob_dump,
    "dump_codec": codec_dump,
    "dump_grouping": grouping_dump,
    "dump_log": log_dump,
    "dump_prefix": prefix_dump,
    "dump_row_set": row_set_dump,
    "dump_set": set_dump,
    "dump_symbol": symbol_dump,
    "dump_tlmi": tlmi_dump,
}
