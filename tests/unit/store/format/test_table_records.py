"""``table.size`` and ``.tbl``: round trips, and what decoding them refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.store.errors import UnsupportedVersionError
from sparkhaven.store.format.java.java_values import DB_DATE_TIME, JInt
from sparkhaven.store.format.java.object_writer import dumps
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.definition import ColumnDefinition, Definition
from sparkhaven.store.format.table.table_size import form_of, size_form
from sparkhaven.store.format.table.tbl import decode_tbl, encode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.schema.document.schema_file import parse_schema
from sparkhaven.store.types.model import Storage
from tests.support.places import GOLDEN
from tests.support.tables.rejected_records import SIZE
from tests.support.writers.coded_rows import SCHEMA

# --- table.size --------------------------------------------------------------------------------------------

LONG = st.integers(0, 2**63 - 1)
NAMES = st.text("abcXYZ_.", min_size=1, max_size=8).filter(lambda name: name not in (".", ".."))
RECORDS = st.builds(
    table_size.TableSize,
    size=LONG,
    last_modified_ms=st.integers(-(2**63), 2**63 - 1),
    data_file_sizes=st.dictionaries(NAMES, LONG, max_size=4),
    source_state=st.none() | st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=3),
    import_state=st.none() | st.text(max_size=5),
    column_version=st.integers(1, 5),
    epoch=st.none() | LONG,
    stream=st.none() | st.text(max_size=5),
    schema_version=st.none() | st.integers(1, 9),
    begun_by=st.none() | st.integers(1, 9),
    sorted_columns=st.dictionaries(NAMES, st.sampled_from(["Ascending", "Descending"]), max_size=2),
    data_indexes=st.dictionaries(NAMES, LONG, max_size=2),
    truncated=st.booleans(),
    checksums=st.dictionaries(NAMES, st.integers(0, 2**32 - 1), max_size=4),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(RECORDS)
def test_table_size_round_trip(record: table_size.TableSize) -> None:
    data = table_size.encode(record)
    assert table_size.decode(data, "x") == record
    mixed = replace(record, data_file_sizes=dict(reversed(list(record.data_file_sizes.items()))))
    assert table_size.encode(mixed) == data, "the order in which files were named must not show"


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(RECORDS, st.data())
def test_a_record_that_is_made_by_its_form_has_the_same_bytes(
    record: table_size.TableSize, data: st.DataObject
) -> None:
    names = data.draw(st.lists(NAMES | st.text(min_size=1, max_size=4), max_size=5, unique=True))
    sizes = data.draw(st.lists(LONG, min_size=len(names), max_size=len(names)))
    checksums = data.draw(st.lists(st.integers(0, 2**32 - 1), min_size=len(names), max_size=len(names)))
    plain = table_size.TableSize(
        size=record.size,
        last_modified_ms=record.last_modified_ms,
        epoch=record.epoch or 0,
        stream=record.stream or "s",
        schema_version=record.schema_version or 1,
        truncated=record.truncated,
        data_file_sizes=dict(zip(names, sizes, strict=True)),
        checksums=dict(zip(names, checksums, strict=True)),
    )
    form = size_form(record.stream or "s", tuple(names), record.schema_version or 1, record.truncated)
    made = form.fill(record.size, record.last_modified_ms, record.epoch or 0, sizes, checksums)
    assert made == table_size.encode(plain)


@given(RECORDS, LONG, st.data())
def test_a_table_size_is_read_by_its_form_as_it_is_decoded(
    record: table_size.TableSize, withdrawn: int, data: st.DataObject
) -> None:
    plain = replace(
        record,
        source_state=None,
        import_state=None,
        column_version=1,
        sorted_columns={},
        data_indexes={},
        data_file_sizes={"a.dat": record.size, **record.data_file_sizes},
        checksums=dict.fromkeys(["a.dat", *record.data_file_sizes], 7),
    )
    if data.draw(st.booleans()):
        plain = replace(plain, committed=withdrawn, withdrawn=withdrawn)
    written = bytearray(table_size.encode(plain))
    form = form_of(plain)
    assert (form is None) == (None in (record.stream, record.schema_version) or plain.committed is not None)
    if form is None:
        return
    if record.last_modified_ms >= 0 and record.epoch is not None:
        assert form.read(bytes(written)) == table_size.decode(bytes(written), "x") == plain
    written[data.draw(st.integers(0, len(written) - 1))] ^= data.draw(st.integers(1, 255))
    damaged = form.read(bytes(written))
    assert damaged is None or damaged == table_size.decode(bytes(written), "x")
    assert form.read(bytes(written[:-1])) is None


def test_table_size_with_later_keys_is_read() -> None:
    assert table_size.decode(dumps(SIZE | {"later": {"x": JInt(1)}}), "x").size == 1


def test_table_size_of_a_directory(tmp_path: Path) -> None:
    fs = Fs()
    assert table_size.load(fs, tmp_path) is None
    assert table_size.load(fs, tmp_path / "nowhere") is None
    record = table_size.decode(dumps(SIZE), "x")
    fs.replace(tmp_path / table_size.NAME, table_size.encode(record))
    assert table_size.load(fs, tmp_path) == record


# --- .tbl --------------------------------------------------------------------------------------------------

TEXTS = st.none() | st.text(st.characters(codec="utf-8"), max_size=400).filter(lambda text: text != "\0")
NUMBERS = st.none() | st.integers(-(2**31) + 1, 2**31 - 1)
CLASSES = st.sampled_from(["int", "java.lang.String", DB_DATE_TIME, "[D", "java.math.BigInteger", "com.example.Odd"])
COLUMNS = st.builds(
    ColumnDefinition,
    name=st.text("abcdefghXYZ_0", min_size=1, max_size=12),
    data_type=CLASSES,
    kind=st.sampled_from([1, 2, 4, 8]),
    component=st.none() | CLASSES,
    var_size=st.none() | st.booleans(),
    encoding=st.sampled_from([None, 0, 1, 2, 4, 8, 16, 32]),
    codec=TEXTS,
    codec_args=TEXTS,
    codec_width=NUMBERS,
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(COLUMNS, max_size=8, unique_by=lambda column: column.name), st.sampled_from([1, 2, 4, 8]))
def test_tbl_round_trip(columns: list[ColumnDefinition], storage_type: int) -> None:
    definition = Definition("NS", "T", tuple(columns), storage_type)
    assert decode_tbl(encode_tbl(definition), "x") == definition


def _golden() -> bytes:
    return (GOLDEN / "splayed.tbl").read_bytes()


def test_tbl_becomes_a_schema() -> None:
    schema = decode_tbl((GOLDEN / "nested-partitioned.tbl").read_bytes(), "x").schema()
    assert schema.full_name == "NS.T"
    assert schema.partitioning is not None
    assert [column.name for column in schema.grouping] == ["Sym"]
    storages = [Storage.NONE, Storage.SYMBOL, Storage.FIXED, Storage.BLOB]
    assert [(column.storage, column.id, column.encoding) for column in schema.columns] == [
        (storage, number, None) for number, storage in enumerate(storages)
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"io.deephaven.db.tables.TableDefinition", b"com.illumon.iris.db.tables.TableDefinition"),
        (b"io.deephaven.dataobjects.DataObjectColumnSet", b"com.fishlib.dataobjects.WColumnSet"),
    ],
)
def test_tbl_with_other_class_names(old: bytes, new: bytes) -> None:
    data = _golden()
    before = data.index(b"\x77\x32\xff") if old.endswith(b"TableDefinition") else None
    renamed = data.replace(len(old).to_bytes(2, "big") + old, len(new).to_bytes(2, "big") + new)
    if before is not None:
        renamed = renamed.replace(b"\x77\x32\xff", bytes((0x77, 0x32 + len(new) - len(old), 0xFF)))
    assert renamed != data
    assert decode_tbl(renamed, "x") == decode_tbl(data, "x")


def test_tbl_is_read_by_its_column_sets() -> None:
    data = _golden()
    # Encoding and ObjectWidth under other names: both are read over, what follows stays in step
    renamed = data.replace(b"\x00\x08Encoding", b"\x00\x08Encodinq").replace(
        b"\x00\x0bObjectWidth", b"\x00\x0bObjectWidtj"
    )
    renamed = renamed.replace(b"\x80\x00\x00\x00\x00\x02\xc0\x80", b"\x00\x00\x00\x07\x00\x02\xc0\x80")
    found = decode_tbl(renamed, "x")
    assert found == decode_tbl(data, "x")


def test_virtual_columns_have_no_schema() -> None:
    definition = Definition("NS", "T", (ColumnDefinition("V", "int", kind=8),))
    assert decode_tbl(encode_tbl(definition), "x") == definition
    with pytest.raises(UnsupportedVersionError, match="column V is virtual"):
        definition.schema()


def test_types_with_a_codec_are_those_of_the_schema() -> None:
    schema = parse_schema(SCHEMA, "t.schema").schema
    found = decode_tbl(encode_tbl(schema), "t.tbl").schema()
    for column, read in zip(schema.columns, found.columns, strict=True):
        assert (read.name, read.type.name, read.type.coding, read.storage) == (
            column.name,
            column.type.name,
            column.type.coding,
            column.storage,
        )
    assert found.columns[-2].codec_width is None  # a set: no codec
