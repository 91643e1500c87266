"""Decoders of the files of one column: ``.dat``, ``.sym``, ``.sym.bytes``, ``.bytes``, ``.ovr``.

Committed lengths come from the ``table.size`` beside the file; without one, the whole file counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkhaven.readers.checks.committed import CommittedFile, Crc, check_file
from sparkhaven.readers.checks.findings import Finding, finding, from_error
from sparkhaven.readers.checks.location import check_overflow, check_prefix
from sparkhaven.store.errors import FormatError, SparkhavenError, UnsupportedVersionError
from sparkhaven.store.format.column.prefix import LITTLE, Prefix
from sparkhaven.store.format.column.region import BYTES
from sparkhaven.store.format.column.symbols import decode_symbols
from sparkhaven.store.format.index.grouping import decode_ovr
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.definition import ColumnDefinition, Definition
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.checked_columns import checksum
from sparkhaven.store.scan.column_file import column_header, open_column
from sparkhaven.store.scan.location_files import location_schema
from sparkhaven.store.types.codings.local_date import CODEC as DATE_CODEC
from sparkhaven.store.types.codings.local_time import CODEC as TIME_CODEC
from sparkhaven.store.types.committed_columns import UNKNOWN, FileState
from sparkhaven.store.types.datatypes import CODED, TYPES, DataType
from sparkhaven.store.types.model import Column, Kind

SAMPLE = 5
ROWS_AT_ONCE = 1 << 20
_UNKNOWN = "unknown"
_UNCODED = frozenset((*(row.java for row in TYPES), *(row.java for row in CODED if row.codec is None))) - {"[B"}
_BY_WIDTH = {
    **{("java.time.LocalDate", width): (DATE_CODEC, form) for width, form in ((3, "Compact"), (5, "Full"))},
    **{("java.time.LocalTime", width): (TIME_CODEC, str(3 * (width - 3))) for width in (3, 4, 5, 6)},
}


def column_data(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[Finding]:
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
    yield from check_prefix(path, prefix)
    on_disk = _size(fs, path) - prefix.data_offset
    facts["dataBytes"] = on_disk
    rows, sizes = on_disk // prefix.width, _disk_sizes(fs, path, prefix)
    record = record_beside(fs, path)
    committed = record.data_file_sizes.get(path.name) if record else None
    if record is None or committed is None:
        yield finding("N214", path)
        if on_disk % prefix.width:
            end = prefix.data_offset + rows * prefix.width
            yield finding("W217", path, at=f"byte {end}", expected=f"{prefix.width} bytes a row")
    else:
        rows, sizes = record.rows, dict(record.data_file_sizes)
    yield from check_committed(fs, path, record)
    facts["rows"] = rows
    column, declared = _column(fs, path, prefix)
    if declared and column.codec:
        facts.update(codec=column.codec, codecArguments=column.codec_args)
    if column.codec == _UNKNOWN:
        yield finding("N215", path)
    if prefix.metadata is not None:
        facts["groups"] = len(prefix.metadata.entries)
        yield from _groups(prefix, column, rows, path)
    yield from _values(fs, path, column, sizes, rows, facts)
    yield from check_committed(fs, path, record, checksum)


def _values(
    fs: Fs, path: Path, column: Column, sizes: dict[str, int], rows: int, facts: dict[str, Any]
) -> Iterator[Finding]:
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


def _groups(prefix: Prefix, column: Column, rows: int, path: Path) -> Iterator[Finding]:
    try:
        groups = prefix.grouping(column, path)
        if groups is not None:
            groups.check(rows, path)
    except FormatError as error:
        yield from_error(error, path)


def symbols(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[Finding]:
    """Offsets of symbols, checked against the bytes that they point into."""
    yield from _texts(fs, path, path.with_name(path.name + ".bytes"), path, facts)


def symbol_bytes(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[Finding]:
    yield from _texts(fs, path.with_name(path.name.removesuffix(".bytes")), path, path, facts)


def _texts(fs: Fs, sym: Path, bytes_file: Path, subject: Path, facts: dict[str, Any]) -> Iterator[Finding]:
    order, encoding = LITTLE, "UTF_8"
    dat = sym.with_suffix(".dat")
    try:
        prefix = column_header(fs, dat)
        order, encoding = prefix.byte_order, prefix.encoding or encoding
    except (SparkhavenError, OSError) as error:
        yield finding("W216", dat, f"byte order and charset are unknown, {order} and {encoding} are assumed: {error}")
    facts.update(byteOrder=order, encoding=encoding)
    extents = []
    record = record_beside(fs, sym)
    for path in (sym, bytes_file):
        stat = fs.stat(path)
        if stat is None:
            yield finding("E203", path, expected="the file", found="nothing")
            return
        committed = record.data_file_sizes.get(path.name) if record else None
        extents.append(min(stat.size, committed) if committed is not None else stat.size)
    if extents[0] % 8 and (record is None or sym.name not in record.data_file_sizes):
        end = extents[0] - extents[0] % 8
        what = "last offset is incomplete"
        yield finding("E201", sym, what, at=f"byte {end}", expected="8 bytes each", found=extents[0])
        extents[0] = end
    yield from check_committed(fs, subject, record)
    facts["symbols"] = extents[0] // 8
    facts["bytes"] = extents[1]
    texts = decode_symbols(fs.map(sym, extents[0]), fs.map(bytes_file, extents[1]), encoding, order, sym)
    facts["first"] = texts.slice(0, SAMPLE).to_pylist()
    double = len(texts) - len(texts.unique())
    facts["duplicates"] = double
    if double:
        yield finding("N246", sym, expected=f"{len(texts) - double} symbols", found=f"{len(texts)} symbols")
    yield from check_committed(fs, subject, record, checksum)


def blob_bytes(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[Finding]:
    yield from check_committed(fs, path, record_beside(fs, path))
    values: dict[str, Any] = {}
    yield from column_data(fs, path.with_suffix(".dat"), values)
    facts.update({name: values[name] for name in ("encoding", "rows", "nulls", "first") if name in values})
    yield from check_committed(fs, path, record_beside(fs, path), checksum)


def overflow(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[Finding]:
    dat = path.with_suffix(".dat")
    try:
        prefix = column_header(fs, dat)
    except (SparkhavenError, OSError) as error:
        yield finding("E201", dat, f"type of the column is unknown: {error}")
        return
    yield from check_overflow(path, prefix, [path.name])
    groups = decode_ovr(fs.read(path), _type(prefix.data_type, dat), path)
    facts["groups"] = len(groups)
    facts["first"] = [
        {"key": _plain(key), "start": int(start), "end": int(stop)}
        for key, start, stop in zip(groups.keys[:SAMPLE], groups.starts, groups.stops, strict=False)
    ]
    record = record_beside(fs, path)
    if record is not None:
        groups.check(record.size, path)


def check_committed(
    fs: Fs, path: Path, record: table_size.TableSize | None, crc: Crc | None = None
) -> Iterator[Finding]:
    """A file by the ``table.size`` beside it, where that names the file: its length, and with ``crc`` its checksum.

    What a value is says more than a checksum, so that comes last.
    """
    size = record.data_file_sizes.get(path.name) if record is not None else None
    if record is not None and size is not None:
        state = FileState(size, record.checksums.get(path.name, UNKNOWN))
        yield from check_file(fs, CommittedFile(path, state), crc)


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
