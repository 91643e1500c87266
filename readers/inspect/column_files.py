"""Decoders of the files of one column: ``.dat``, ``.sym``, ``.sym.bytes``, ``.bytes``, ``.ovr``.

Committed lengths come from the ``table.size`` beside the file; without one, the whole file counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.readers.checks.findings import CheckFinding, finding, from_error, other_checksum, shortened
from sparkhaven.store.errors import FormatError, SparkhavenError, UnsupportedVersionError
from sparkhaven.store.format.column.prefix import LITTLE, Prefix
from sparkhaven.store.format.column.region import BYTES
from sparkhaven.store.format.column.symbols import decode_symbols
from sparkhaven.store.format.index.grouping import decode_ovr
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.definition import ColumnDefinition, Definition
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.checksums import checksum
from sparkhaven.store.scan.column_file import column_header, open_column
from sparkhaven.store.scan.location_files import location_schema
from sparkhaven.store.types.codings.local_date import CODEC as DATE_CODEC
from sparkhaven.store.types.codings.local_time import CODEC as TIME_CODEC
from sparkhaven.store.types.datatypes import CODED, TYPES, DataType
from sparkhaven.store.types.model import Column, Kind

SAMPLE = 5
RESTORE = "restore it from a copy, or roll back to an epoch before the damage"
ROWS_AT_ONCE = 1 << 20
_UNKNOWN = "unknown"
_UNCODED = frozenset((*(row.java for row in TYPES), *(row.java for row in CODED if row.codec is None))) - {"[B"}
_BY_WIDTH = {
    **{("java.time.LocalDate", width): (DATE_CODEC, form) for width, form in ((3, "Compact"), (5, "Full"))},
    **{("java.time.LocalTime", width): (TIME_CODEC, str(3 * (width - 3))) for width in (3, 4, 5, 6)},
}


def column_data(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    prefix = column_header(fs, path)
    facts.update(
        byteOrder=prefix.byte_order,
        dataOffset=prefix.data_offset,
        dataType=prefix.data_type,
        width=prefix.width,
        encoding=prefix.encoding,
        columnId=prefix.column_id,
        overflow=prefix.overflow,
        prefixBytes=prefix.length,
    )
    padding = np.frombuffer(fs.read_range(path, prefix.length, prefix.data_offset - prefix.length), np.uint8)
    if padding.any():
        offset = prefix.length + int(np.flatnonzero(padding)[0])
        yield finding("warning", path, "padding of the prefix is not zero", at=f"byte {offset}", expected="00")
    on_disk = _size(fs, path) - prefix.data_offset
    facts["dataBytes"] = on_disk
    rows, sizes = on_disk // prefix.width, _disk_sizes(fs, path, prefix)
    record = record_beside(fs, path)
    committed = record.data_file_sizes.get(path.name) if record else None
    if record is None or committed is None:
        yield finding("note", path, "no table.size beside the file names its committed length. The whole file is shown")
        if on_disk % prefix.width:
            end = prefix.data_offset + rows * prefix.width
            yield finding(
                "warning", path, "last row is incomplete", at=f"byte {end}", expected=f"{prefix.width} bytes a row"
            )
    else:
        rows, sizes = record.rows, dict(record.data_file_sizes)
        yield from extent(path, prefix.data_offset + committed, prefix.data_offset + on_disk)
    facts["rows"] = rows
    column, declared = _column(fs, path, prefix)
    if declared and column.codec:
        facts.update(codec=column.codec, codecArguments=column.codec_args)
    if column.codec == _UNKNOWN:
        yield finding("note", path, "no definition beside the file names its codec. Values are shown as bytes")
    if prefix.metadata is not None:
        facts["groups"] = len(prefix.metadata.entries)
        yield from _groups(prefix, column, rows, path)
    yield from _values(fs, path, column, sizes, rows, facts)
    yield from changed(fs, path, record, prefix.data_offset)


def _values(
    fs: Fs, path: Path, column: Column, sizes: dict[str, int], rows: int, facts: dict[str, Any]
) -> Iterator[CheckFinding]:
    try:
        opened = open_column(fs, path.parent, column, sizes, rows)
        nulls = 0
        for start in range(0, rows, ROWS_AT_ONCE):
            values = opened.read(start, min(start + ROWS_AT_ONCE, rows))
            nulls += values.null_count
            if start == 0:
                facts["first"] = _first(values.slice(0, SAMPLE))
                if pa.types.is_dictionary(values.type):
                    facts["symbols"] = len(values.dictionary)
        facts["nulls"] = nulls
    except (SparkhavenError, OSError) as error:
        yield from_error(error, path)


def _groups(prefix: Prefix, column: Column, rows: int, path: Path) -> Iterator[CheckFinding]:
    try:
        groups = prefix.grouping(column, path)
        if groups is not None:
            groups.check(rows, path)
    except FormatError as error:
        yield from_error(error, path)


def symbols(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    """Offsets of symbols, checked against the bytes that they point into."""
    yield from _texts(fs, path, path.with_name(path.name + ".bytes"), path, facts)


def symbol_bytes(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    yield from _texts(fs, path.with_name(path.name.removesuffix(".bytes")), path, path, facts)


def _texts(fs: Fs, sym: Path, bytes_file: Path, subject: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    order, encoding = LITTLE, "UTF_8"
    dat = sym.with_suffix(".dat")
    try:
        prefix = column_header(fs, dat)
        order, encoding = prefix.byte_order, prefix.encoding or encoding
    except (SparkhavenError, OSError) as error:
        yield finding(
            "warning", dat, f"byte order and charset are unknown, {order} and {encoding} are assumed: {error}"
        )
    facts.update(byteOrder=order, encoding=encoding)
    extents = []
    record = record_beside(fs, sym)
    for path in (sym, bytes_file):
        stat = fs.stat(path)
        if stat is None:
            yield finding("error", path, "companion file is missing", expected="the file", found="nothing")
            return
        committed = record.data_file_sizes.get(path.name) if record else None
        if committed is not None and path == subject:
            yield from extent(path, committed, stat.size)
        extents.append(min(stat.size, committed) if committed is not None else stat.size)
    if extents[0] % 8 and (record is None or sym.name not in record.data_file_sizes):
        end = extents[0] - extents[0] % 8
        yield finding(
            "error", sym, "last offset is incomplete", at=f"byte {end}", expected="8 bytes each", found=extents[0]
        )
        extents[0] = end
    facts["symbols"] = extents[0] // 8
    facts["bytes"] = extents[1]
    texts = decode_symbols(fs.map(sym, extents[0]), fs.map(bytes_file, extents[1]), encoding, order, sym)
    facts["first"] = texts.slice(0, SAMPLE).to_pylist()
    double = len(texts) - len(texts.unique())
    facts["duplicates"] = double
    if double:
        yield finding("note", sym, "a text has several symbols", expected=f"{len(texts) - double}", found=len(texts))
    yield from changed(fs, subject, record, 0)


def blob_bytes(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    record = record_beside(fs, path)
    committed = record.data_file_sizes.get(path.name) if record else None
    if committed is not None:
        yield from extent(path, committed, _size(fs, path))
    values: dict[str, Any] = {}
    yield from column_data(fs, path.with_suffix(".dat"), values)
    facts.update({name: values[name] for name in ("encoding", "rows", "nulls", "first") if name in values})
    yield from changed(fs, path, record, 0)


def overflow(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    dat = path.with_suffix(".dat")
    try:
        prefix = column_header(fs, dat)
    except (SparkhavenError, OSError) as error:
        yield finding("error", dat, f"type of the column is unknown: {error}")
        return
    groups = decode_ovr(fs.read(path), _type(prefix.data_type, dat), path)
    facts["groups"] = len(groups)
    facts["first"] = [
        {"key": _plain(key), "start": int(start), "end": int(stop)}
        for key, start, stop in zip(groups.keys[:SAMPLE], groups.starts, groups.stops, strict=False)
    ]
    if not prefix.overflow:
        yield finding("note", path, "unused: the overflow flag of the column is FALSE")
    record = record_beside(fs, path)
    if record is not None:
        groups.check(record.size, path)


def extent(path: Path, committed: int, on_disk: int) -> Iterator[CheckFinding]:
    """A file's length against the committed one, both with the prefix."""
    if on_disk < committed:
        yield shortened(path, on_disk, committed, RESTORE)
    elif on_disk > committed:
        yield finding(
            "note",
            path,
            "uncommitted tail: readers ignore it",
            at=f"byte {committed}",
            expected=f"{committed} bytes",
            found=f"{on_disk} bytes",
        )


def changed(fs: Fs, path: Path, record: table_size.TableSize | None, offset: int) -> Iterator[CheckFinding]:
    """The checksum of the committed bytes, which covers the data and not the prefix before ``offset``."""
    expected = record.checksums.get(path.name) if record else None
    committed = record.data_file_sizes.get(path.name) if record else None
    if expected is None or committed is None or _size(fs, path) < offset + committed:
        return
    crc = checksum(fs, path, offset, committed)
    if crc != expected:
        span = offset, offset + committed
        yield other_checksum(path, "Committed bytes have changed", span, (expected, crc), RESTORE)


def record_beside(fs: Fs, path: Path) -> table_size.TableSize | None:
    try:
        return table_size.load(fs, path.parent)
    except (SparkhavenError, OSError):
        return None  # inspecting table.size itself reports its damage


def _disk_sizes(fs: Fs, path: Path, prefix: Prefix) -> dict[str, int]:
    """Lengths on disk as data regions: whole rows, whole offsets."""
    stem = path.name.removesuffix(".dat")
    sizes = {path.name: (_size(fs, path) - prefix.data_offset) // prefix.width * prefix.width}
    for suffix in (".sym", ".sym.bytes", ".bytes"):
        stat = fs.stat(path.with_name(stem + suffix))
        if stat is not None:
            sizes[stem + suffix] = stat.size // 8 * 8 if suffix == ".sym" else stat.size
    return sizes


def _column(fs: Fs, path: Path, prefix: Prefix) -> tuple[Column, bool]:
    """The column of a file, and whether the definition beside it has one of this class and width."""
    name = path.name.removesuffix(".dat")
    try:
        schema = location_schema(fs, path.parent)
    except (SparkhavenError, OSError):
        schema = None  # inspecting the definition itself reports its damage
    column = schema.column(name) if schema else None
    declared = column is not None and (column.type.java, column.width) == (prefix.data_type, prefix.width)
    if column is None or not declared:
        column = _undeclared(name, prefix, blob=fs.stat(path.with_name(name + BYTES)) is not None)
    return replace(column, kind=Kind.NORMAL, id=prefix.column_id or 0, encoding=prefix.encoding), declared


def _undeclared(name: str, prefix: Prefix, *, blob: bool) -> Column:
    """A column by class and width alone; where they do not tell the codec, one of opaque bytes."""
    java, width = prefix.data_type, prefix.width
    codec, arguments = _BY_WIDTH.get((java, width), (None if java in _UNCODED else _UNKNOWN, None))
    own = width if codec == _UNKNOWN and not blob else None
    record = ColumnDefinition(name, java, 1, None, width == 8, None, codec, arguments, own)
    (column,) = Definition("", "", (record,)).schema().columns
    return column


def _type(java: str, where: Path) -> DataType:
    data_type = next((row for row in TYPES if row.java == java), None)
    if data_type is None:
        raise UnsupportedVersionError(
            "type of the column is not one that this release decodes", where=where, expected="a basic type", found=java
        )
    return data_type


def _size(fs: Fs, path: Path) -> int:
    stat = fs.stat(path)
    return stat.size if stat else 0


def _first(values: pa.Array) -> list[Any]:
    kinds = pa.types
    if kinds.is_date(values.type) or kinds.is_time(values.type):  # Python has not all of them
        values = values.cast(pa.string())
    pairs = kinds.is_map(values.type)
    return [dict(map(_plain, value)) if pairs and value is not None else _plain(value) for value in values.to_pylist()]


def _plain(value: object) -> Any:
    if isinstance(value, bytes):
        return value.hex(" ")
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
