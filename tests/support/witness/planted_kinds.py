"""The table of planted damage: kind, how it is planted, where it applies, and what is said."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sparkhaven.store.format.column.prefix import DATA_OFFSET, decode_prefix, encode_prefix
from sparkhaven.store.format.index.grouping import GroupRanges
from sparkhaven.store.types.codings.row_set import encode_rows
from tests.support.witness.planted import HISTORY, INTRADAY, PARQUET, ROW, ROWS, Changed, Site

FILES = (INTRADAY, HISTORY)
NO_VALUE, NOT_ONE = "bytes stand for no value of the column's codec", "a value is not one of column {}"
ENDS = "end of a value is negative, before its predecessor or beyond the committed bytes"
LAST = "last value does not end with the committed bytes"
CHARSET, GROUP = "bytes are not text in the column's charset", "a row does not have the value of its group"
FRACTION = 30  # bits of nanoseconds


@dataclass(frozen=True, slots=True)
class Planted:
    """One kind. ``file``, ``at``, ``what``: what `verify --deep` names."""

    kind: str
    how: str
    plant: Callable[[Site], Changed]
    file: str
    at: str
    what: str
    sites: tuple[str, ...] = FILES


def packed(width: int, *parts: tuple[int, int]) -> bytes:
    """Numbers at their bits, big-endian."""
    return sum(number << shift for number, shift in parts).to_bytes(width, "big")


def _entry(kind: str, column: str, entry: bytes) -> Planted:
    how = f"`{column}`, row {ROW}: `{entry.hex(' ')}`"
    return Planted(kind, how, lambda site: site.entry(column, entry), f"{column}.dat", f"row {ROW}", NO_VALUE)


def _value(kind: str, column: str, change: Callable[[bytes], bytes], how: str) -> Planted:
    plant = partial(Site.value, column=column, change=change)
    return Planted(kind, f"`{column}`, row {ROW}: {how}", plant, f"{column}.dat", f"row {ROW}", NO_VALUE)


def _end(kind: str, column: str, row: int, change: Callable[[np.ndarray], int], at: str, what: str = ENDS) -> Planted:
    def set_end(ends: np.ndarray) -> None:
        ends[row] = change(ends)

    name = f"{column}.dat"
    return Planted(
        kind, f"`{column}`, end of row {row}", lambda site: site.entries(name, "<i8", set_end), name, at, what
    )


def _cut(kind: str, name: str, what: str, at: str, file: str = "") -> Planted:
    how = f"`{name}` ends a byte early"
    return Planted(kind, how, lambda site: {name: site.files[name][:-1]}, file or name, at, what)


def _parquet(kind: str, column: str, value: Any, how: str) -> Planted:
    plant = partial(Site.parquet, column=column, value=value)
    what = NOT_ONE.format(column)
    return Planted(kind, f"`{column}`, row {ROW}: {how}", plant, "table.parquet", f"row {ROW}", what, (PARQUET,))


def _index(kind: str, how: str, plant: Callable[[Site], Changed], name: str, at: str, what: str) -> Planted:
    return Planted(kind, how, plant, name, at, what, (HISTORY, PARQUET))


FULL = (2024 + 999_999_999, 9)
ENTRIES = (
    _entry("month 13", "Day", packed(3, (2024, 9), (13, 5), (1, 0))),
    _entry("month 0", "Day", packed(3, (2024, 9), (1, 0))),
    _entry("day 0", "Day", packed(3, (2024, 9), (2, 5))),
    _entry("30 February", "Day", packed(3, (2024, 9), (2, 5), (30, 0))),
    _entry("29 February of no leap year", "Day", packed(3, (2023, 9), (2, 5), (29, 0))),
    _entry("year 10000 in three bytes", "Day", packed(3, (10_000, 9), (1, 5), (1, 0))),
    _entry("a null of a date with a bit", "Day", b"\xff\0\x01"),
    _entry("month 14 in five bytes", "Far", packed(5, FULL, (14, 5), (1, 0))),
    _entry("a year beyond all dates", "Far", b"\xfe\xff\xff\xff\xff"),
    _entry("a null of five bytes with a bit", "Far", b"\xff\0\0\0\x01"),
    _entry("hour 24", "Clock", packed(6, (24, 12 + FRACTION))),
    _entry("minute 60", "Clock", packed(6, (1, 12 + FRACTION), (60, 6 + FRACTION))),
    _entry("second 60", "Clock", packed(6, (60, FRACTION))),
    _entry("a whole second of nanoseconds", "Clock", packed(6, (10**9, 0))),
    _entry("a null of a time with a bit", "Clock", b"\x80\0\0\0\0\x01"),
    _entry("hour 25 in four bytes", "Short", packed(4, (25, 22))),
    _entry("a whole second of milliseconds", "Short", packed(4, (1000, 0))),
    _entry("19 digits of 18", "Px", b"\x01" + (10**18).to_bytes(8, "big")),
    _entry("a sign that is none", "Px", b"\x02" + bytes(7) + b"\x05"),
    _entry("a null of a decimal with a bit", "Px", bytes(8) + b"\x01"),
    _entry("51 digits of 50", "Wide", b"\x01" + (10**50).to_bytes(21, "big")),
    _entry("a sign of a wide decimal that is none", "Wide", b"\x03" + bytes(20) + b"\x05"),
    _entry("21 digits of 20", "Whole", b"\x01" + (10**20).to_bytes(9, "big")),
    _entry("a flag of bytes that is none", "Key", b"\x02abcd"),
    _entry("a null of bytes with content", "Key", b"\x80abcd"),
)
OFFSETS = (
    _end("an end before its predecessor", "Free", ROW, lambda ends: ends[ROW - 1] - 1, f"entry {ROW}, byte {8 * ROW}"),
    _end("a negative end", "Raw", 0, lambda ends: -5, "entry 0, byte 0"),
    _end("an end beyond the bytes", "Rows", ROW, lambda ends: 10**9, f"entry {ROW}, byte {8 * ROW}"),
    _end("a last end beyond the bytes", "Texts", ROWS - 1, lambda ends: ends[-1] + 1, f"row {ROWS - 1}", LAST),
    _end("bytes behind the last end", "Thing", ROWS - 1, lambda ends: ends[-1] - 1, f"row {ROWS - 1}", LAST),
)
TWICE = struct.pack(">i", 2) + (struct.pack(">i", 1) + b"a" + bytes(9)) * 2
BLOBS = (
    _value("an array of another class", "Longs", lambda value: value.replace(b"[J", b"[I"), "class `[I`"),
    _value("another serialVersionUID", "Doubles", lambda value: value[:8] + bytes(8) + value[16:], "zeros for it"),
    _value("more elements than bytes", "Longs", lambda value: value[:23] + b"\x7f" + value[24:], "length `7f…`"),
    _value("a negative number of elements", "Ints", lambda value: value[:23] + b"\xff" * 4 + value[27:], "length −1"),
    _value("a Java stream that is cut", "Shorts", lambda value: value[:-1], "a byte less"),
    _value("a Java stream with a byte more", "Flags", lambda value: value + b"\0", "a byte more"),
    _value("no Java stream", "Moments", lambda value: bytes(len(value)), "zeros"),
    _value("a text that is no UTF", "Texts", lambda value: value[:-1] + b"\xff", "last byte `ff`"),
    _value("a scale without a number", "Free", lambda value: value[:4], "the first four bytes"),
    _value("a number of 10,000 digits", "Huge", lambda value: b"\x01" + bytes(4200), "4,201 bytes"),
    _value("a key twice", "Weights", lambda value: TWICE, "a map with `a` twice"),
    _value("more entries than bytes", "Weights", lambda value: b"\x7f" + value[1:], "count `7f…`"),
    _value("a command that no row set has", "Rows", lambda value: b"\x28" + value[1:], "first byte `28`"),
    _value("an unordered row set", "Rows", lambda value: bytes.fromhex("0C09 0CFC 0CFC 20"), "two range ends in a row"),
    _value("a row set without its end", "Rows", lambda value: value[:-1], "a byte less"),
)


def _beyond(site: Site) -> Changed:
    return site.entry("Tags", struct.pack("<q", 1 << len(site.files["Tags.sym"]) // 8))


def _symbol_end(site: Site) -> Changed:
    ends = np.frombuffer(site.files["Tags.sym"], "<i8").copy()
    ends[1] = 99
    return {"Tags.sym": ends.tobytes()}


def _last_text(site: Site) -> Changed:
    return {"Tags.sym.bytes": site.files["Tags.sym.bytes"][:-1] + b"\xff"}


def _width(site: Site) -> Changed:
    """The prefix of a column of other width, in front of the same bytes."""
    return {"Day.dat": site.files["Far.dat"][:DATA_OFFSET] + site.files["Day.dat"][DATA_OFFSET:]}


SETS_AND_COMPANIONS = (
    Planted("a bit beyond the universe", f"`Tags`, row {ROW}: the first free bit", _beyond, "Tags.dat", f"row {ROW}",
            "set has a bit of no symbol"),
    Planted("an end of a set's text", "`Tags.sym`, end 1: 99", _symbol_end, "Tags.sym", "entry 1, byte 8", ENDS),
    Planted("a set's text that is no UTF", "`Tags.sym.bytes`: last byte `ff`", _last_text, "Tags.sym", "entry ",
            CHARSET),
    Planted("the prefix of another width", "`Day.dat` begins as `Far.dat`", _width, "Day.dat", "",
            "file of column Day says that it belongs to another column"),
    _cut("a cut companion of a set", "Tags.sym", "symbol offsets are truncated", ""),
    _cut("a cut companion of a blob", "Raw.bytes", LAST, f"row {ROWS - 1}", file="Raw.dat"),
    _cut("a cut column of dates", "Day.dat", "committed bytes are not rows times width", ""),
)  # fmt: skip
SYM, N = "Index-Sym/Sym", "Index-N"


def _swap(numbers: np.ndarray) -> None:
    numbers[[0, 1]] = numbers[[1, 0]]


def _set_last(value: int) -> Callable[[np.ndarray], None]:
    def change(numbers: np.ndarray) -> None:
        numbers[-1] = value

    return change


def _first_set(*rows: int) -> Callable[[Site], Changed]:
    starts = np.array(rows, np.int64)
    return lambda site: site.value(f"{N}/dh_row_set", lambda value: encode_rows(starts, starts + 1), 0)


def _grouped(stop: int, start: int) -> Callable[[Site], Changed]:
    """The first group ends, and the second one begins, so many rows later."""

    def plant(site: Site) -> Changed:
        column = next(column for column in site.schema.stored if column.name == "Sym")
        data = site.files["Sym.dat"]
        groups = decode_prefix(data[:DATA_OFFSET], "Sym.dat").grouping(column, "Sym.dat")
        assert groups is not None and len(groups) > 1
        stops, starts = groups.stops.copy(), groups.starts.copy()
        stops[0] += stop
        starts[1] += start
        prefix = encode_prefix(column, grouping=GroupRanges(groups.keys, starts, stops, column.type))
        return {"Sym.dat": prefix + data[DATA_OFFSET:]}

    return plant


SIDECAR = ".dh_metadata/indexes/N/index_N_table.parquet"
INDEXES = (
    Planted("grouping that disagrees", "`Sym`: the second group begins a row early", _grouped(-1, -1), "Sym.dat",
            "row ", GROUP, (HISTORY,)),
    Planted("grouping with a gap", "`Sym`: the first group ends a row early", _grouped(-1, 0), "Sym.dat", "entry 1",
            "grouping range is empty, out of order, overlaps or leaves a gap", (HISTORY,)),
    _index("an index key that disagrees", "`Index-Sym`, first key: another text",
           lambda site: site.value(SYM, lambda value: value[:-1] + b"!", 0), "Index-Sym", "row 0",
           "a row has another Sym than its key in the index"),
    _index("index keys out of order", "`Index-N`: the first two keys exchanged",
           lambda site: site.entries(f"{N}/N.dat", "<i8", _swap), N, "entry 1", "keys of the index do not ascend"),
    _index("an index of rows beyond the location", "`Index-Sym`: the last range ends a row later",
           lambda site: site.entries("Index-Sym/dh_end_pos.dat", "<i8", _set_last(ROWS + 1)), "Index-Sym", "entry",
           "rows of a key of the index are those of another key, or of none"),
    _index("a row that no key has", "`Index-Sym`: the last range ends a row early",
           lambda site: site.entries("Index-Sym/dh_end_pos.dat", "<i8", _set_last(ROWS - 1)), "Index-Sym",
           f"row {ROWS - 1}", "a row is missing in the index"),
    _index("a row that two keys have", "`Index-N`, first set: all rows",
           lambda site: site.value(f"{N}/dh_row_set", lambda value: encode_rows(np.array([0]), np.array([ROWS])), 0),
           N, "entry 0", "rows of a key of the index are those of another key, or of none"),
    _index("a row set beyond the location", f"`Index-N`, first set: row {ROWS}", _first_set(ROWS), N, "entry 0",
           "a position of a row set is beyond the location"),
    _index("a row set that is damaged", "`Index-N`, first set: no end",
           lambda site: site.value(f"{N}/dh_row_set", lambda value: value[:-1], 0), N, "entry 0, byte",
           "row set has no end"),
    Planted("a sidecar with another key", f"`{SIDECAR}`, first key: −5",
            lambda site: site.parquet("N", -5, name=SIDECAR, row=0), SIDECAR, "entry 0",
            "the sidecar has another N than the index", (PARQUET,)),
    Planted("a sidecar with other rows", f"`{SIDECAR}`, first set: all rows",
            lambda site: site.parquet("dh_row_set", encode_rows(np.array([0]), np.array([ROWS])), name=SIDECAR, row=0),
            SIDECAR, "from entry 0 on", "the sidecar has other rows than the index", (PARQUET,)),
)  # fmt: skip
VALUES_IN_PARQUET = (
    _parquet("a row set of bytes that are none", "Rows", b"\x28", "`28`"),
    _parquet("a decimal text that is none", "Free", "12,5", "`12,5`"),
    _parquet("a set with null", "Tags", ["a", None], "null among its texts"),
    _parquet("a map with a key twice", "Weights", [("a", 1.0), ("a", 2.0)], "`a` twice"),
    _parquet("bytes of another length", "Key", b"abcde", "five bytes for four"),
    _parquet("a value equal to the null of its type", "Longs", [-(2**63)], "the least long as an element"),
)
KINDS = (*ENTRIES, *OFFSETS, *BLOBS, *SETS_AND_COMPANIONS, *INDEXES, *VALUES_IN_PARQUET)
