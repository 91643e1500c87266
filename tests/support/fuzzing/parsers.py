"""Every parser of bytes that a foreign or damaged file may hold, each with the inputs that mutation starts from.

A parser gives something, or raises an error of ours that says what is wrong. Anything else is a defect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pyarrow as pa

from sparkhaven.jobs.settings.stream_file import load_stream_file
from sparkhaven.store.epochs.files.checkpoint import decode_checkpoint
from sparkhaven.store.epochs.files.removals import decode_removals
from sparkhaven.store.epochs.state.log_records import decode as decode_log_record
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.column.charset import StoredEnds, decode_blobs
from sparkhaven.store.format.column.coded import decode_coded, decode_coded_blobs
from sparkhaven.store.format.column.prefix import decode_prefix, encode_prefix
from sparkhaven.store.format.column.symbols import decode_symbols
from sparkhaven.store.format.index.grouping import decode_ovr, encode_ovr
from sparkhaven.store.format.index.tlmi import IndexEntry, decode_tlmi, encode_tlmi
from sparkhaven.store.format.java.object_reader import loads
from sparkhaven.store.format.parquet.footer import decode_footer
from sparkhaven.store.format.parquet.trees import decode_manifest
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.tbl import decode_tbl
from sparkhaven.store.framing import frame, scan
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import decode_record
from sparkhaven.store.merges.validations import decode_validation
from sparkhaven.store.schema.deployed.history import decode_history
from sparkhaven.store.schema.document.schema_file import parse_schema
from sparkhaven.store.types.codings.row_set import decode_rows, encode_rows
from sparkhaven.store.types.datatypes import BY_NAME, DataType, data_type
from sparkhaven.store.types.model import Column, Kind, Storage
from tests.support.places import GOLDEN
from tests.support.tables.column_files import group_ranges
from tests.support.writers.coded_rows import SCHEMA

WHERE = "input"
TEXT = BY_NAME["String"]
GROUPED = Column("C", TEXT, Kind.GROUPING, Storage.SYMBOL, 2, "UTF_8")
ENTRIES = {  # a value of each
    "LocalDate": bytes.fromhex("0FC304"),
    "LocalTime": bytes.fromhex("35E01DCD6500"),
    "BigDecimal": bytes.fromhex("010000000000498D5880"),
}
STREAM_FILE = b"""name   = "trades"
table  = "Equity.Trade"
schema = "Equity.Trade.schema"

[feed]
type = "files"
path = "feed/*.json"

[partition]
internal = { column = "Exchange" }
value    = { column = "At", zone = "America/New_York" }

[bad_rows]
max_rows = 0
"""


@dataclass(frozen=True)
class Parser:
    """``parse`` takes any bytes. ``seeds``: inputs that it accepts."""

    parse: Callable[[bytes], object]
    seeds: tuple[bytes, ...]


def golden(*names: str) -> tuple[bytes, ...]:
    return tuple((GOLDEN / name).read_bytes() for name in names)


def payloads(*names: str) -> tuple[bytes, ...]:
    """The payloads of frames: a mutated checksum would be all that is ever tried."""
    return tuple(found.payload for data in golden(*names) for found in scan(data).frames)


def _ends_and_data(data: bytes) -> tuple[pa.Buffer, pa.Buffer]:
    """An input as ends and what they point into: the first byte is the number of ends."""
    count = data[0] % 16 if data else 0
    return pa.py_buffer(data[1 : 1 + 8 * count].ljust(8 * count, b"\0")), pa.py_buffer(data[1 + 8 * count :])


def _joined(ends: list[int], data: bytes) -> bytes:
    return bytes([len(ends)]) + np.array(ends, "<i8").tobytes() + data


def _symbols(data: bytes) -> object:
    return decode_symbols(*_ends_and_data(data), "UTF_8", "LITTLE_ENDIAN", WHERE)


def _blobs(data: bytes) -> object:
    ends, octets = _ends_and_data(data)
    return decode_blobs(StoredEnds(ends, 0, "LITTLE_ENDIAN", WHERE), octets, "UTF_16")


def _coded(kind: DataType) -> Parser:
    """A column with a codec: entries of one width, or ends and bytes."""
    if kind.fixed is not None:
        coding, width = kind.fixed, kind.width
        seeds = (coding.null, ENTRIES[kind.name])
        return Parser(lambda data: decode_coded(pa.py_buffer(data[: len(data) // width * width]), coding, WHERE), seeds)
    assert kind.blob is not None
    blob = kind.blob

    def parse(data: bytes) -> object:
        ends, octets = _ends_and_data(data)
        return decode_coded_blobs(StoredEnds(ends, 0, "LITTLE_ENDIAN", WHERE), octets, blob)

    values = {"double[]": [[1.5], None, []], "String[]": [["a", None, "é"], []], "Map": [[("a", 1.5)], []]}
    array = pa.array(values.get(kind.name, ["12.5", None, "-1"]), kind.arrow)
    ends, octets, _ = blob.encode(array)
    return Parser(parse, (_joined(ends.tolist(), octets.tobytes()),))


@cache
def _directory() -> Path:
    return Path(mkdtemp(prefix="stream-files-"))


def _stream_file(data: bytes) -> object:
    path = _directory() / "stream.toml"
    path.write_bytes(data)
    return load_stream_file(Fs(), path, {})


def _checkpoint(data: bytes) -> object:
    return decode_checkpoint(data, "stream", WHERE)


@cache
def parsers() -> Mapping[str, Parser]:
    """By name."""
    groups = group_ranges([None, "AAPL", "MSFT"], [1, 3, 2], TEXT)
    sizes = {"Note.bytes": 3, "Note.dat": 24, "Sym.dat": 12}
    record = table_size.TableSize(3, 5, sizes, {"a": "b"}, epoch=17, stream="s", schema_version=2, checksums=sizes)
    index = encode_tlmi([IndexEntry(LocationKey(str(n), "2017-08-04"), 7, 5) for n in range(3)])
    prefixes = (encode_prefix(GROUPED)[:480], encode_prefix(GROUPED, grouping=groups)[:599])
    coded = {
        "date": data_type("LocalDate", None, "Compact"),
        "time": data_type("LocalTime"),
        "decimal": data_type("BigDecimal", None, "20,8"),
        "free-decimal": data_type("BigDecimal"),
        "double-array": data_type("double[]"),
        "text-array": data_type("String[]"),
        "text-map": data_type("java.util.Map"),
    }
    return {
        "java-stream": Parser(lambda data: loads(data, WHERE), (table_size.encode(record), encode_ovr(groups))),
        "prefix": Parser(lambda data: decode_prefix(data, WHERE), prefixes),
        "ovr": Parser(lambda data: decode_ovr(data, TEXT, WHERE).check(6, WHERE), (encode_ovr(groups),)),
        "table-size": Parser(lambda data: table_size.decode(data, WHERE), (table_size.encode(record),)),
        "tbl": Parser(lambda data: decode_tbl(data, WHERE).schema(), golden("splayed.tbl", "ten-columns.tbl")),
        "tlmi": Parser(lambda data: decode_tlmi(data, WHERE), (index,)),
        "symbols": Parser(_symbols, (_joined([4, 5, 9], b"AAPL\0MSFT"), _joined([0, 2], "é".encode()))),
        "blobs": Parser(_blobs, (_joined([4, 4, 8], 2 * "é".encode("utf-16")),)),
        "row-set": Parser(
            lambda data: decode_rows(data, WHERE, 1 << 40),
            tuple(encode_rows(np.array([a]), np.array([b])) for a, b in ((0, 5), (7, 99_999))),
        ),
        "log-record": Parser(lambda data: decode_log_record(data, WHERE), payloads("stream.log", "stream-ranges.log")),
        "frames": Parser(lambda data: scan(data, 0), (frame(b'{"a":1}') + frame(b'{"b":2}'),)),
        "checkpoint": Parser(_checkpoint, golden("stream.checkpoint", "stream-ranges.checkpoint")),
        "removal": Parser(
            lambda data: decode_removals(data, WHERE), payloads("stream.removals", "stream-folded.removals")
        ),
        "merge-record": Parser(lambda data: decode_record(data, WHERE), golden("merge-v3.json", "merge-v3-drops.json")),
        "validation": Parser(lambda data: decode_validation(data, WHERE), golden("validation-v1.validation")),
        "history": Parser(lambda data: decode_history(data, WHERE), golden("schema-history.json")),
        "manifest": Parser(lambda data: decode_manifest(data, WHERE), golden("tree-v1-manifest.json")),
        "footer": Parser(lambda data: decode_footer(data, WHERE), (b'{"version": "1.2.3", "dataIndexes": []}',)),
        "schema": Parser(lambda data: parse_schema(data, "Test.Coded.schema"), (SCHEMA,)),
        "stream-file": Parser(_stream_file, (STREAM_FILE,)),
        **{name: _coded(kind) for name, kind in coded.items()},
    }


def try_one(name: str, data: bytes) -> bool:
    """Whether a parser accepts an input. Whatever it raises but an error of ours goes through."""
    try:
        parsers()[name].parse(data)
    except SparkhavenError as error:
        assert error.what and str(error)
        return False
    return True
