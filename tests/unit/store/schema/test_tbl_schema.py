"""A schema file from a table definition: what it says, and that reading it gives the definition back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.store.errors import SchemaParseError, SettingsError
from sparkhaven.store.format.table.definition import EXTENDED, ColumnDefinition, Definition, definition_of
from sparkhaven.store.format.table.tbl import decode_tbl, encode_tbl
from sparkhaven.store.schema.differences import column_differences
from sparkhaven.store.schema.document.schema_file import lost_in_text, parse_schema, tbl_schema, tbl_schema_text
from tests.support.writers.coded_rows import SCHEMA as CODED

GOLDEN = Path(__file__).parents[3] / "golden"
CODEC = "io.deephaven.util.codec"
COLUMNS = (
    ColumnDefinition("Date", "java.lang.String", 4, encoding=2),
    ColumnDefinition("Sym", "java.lang.String", 2, encoding=4),
    ColumnDefinition("Unset", "java.lang.String"),
    ColumnDefinition("Zero", "java.lang.String", encoding=0),
    ColumnDefinition("Note", "java.lang.String", var_size=True, encoding=8),
    ColumnDefinition("Ts", "io.deephaven.db.tables.utils.DBDateTime"),
    ColumnDefinition("Live", "java.lang.Boolean"),
    ColumnDefinition("Side", "char", 2),
    ColumnDefinition(
        "Day", "java.time.LocalDate", codec=f"{CODEC}.LocalDateCodec", codec_args="Compact", codec_width=3
    ),
    ColumnDefinition("Days", "java.time.LocalDate"),
    ColumnDefinition("Far", "java.time.LocalDate", codec="com.acme.codec.LocalDateCodec", codec_width=5),
    ColumnDefinition("Px", "java.math.BigDecimal", codec=f"{CODEC}.BigDecimalCodec", codec_args="20,8", codec_width=10),
    ColumnDefinition("Free", "java.math.BigDecimal", codec=f"{CODEC}.BigDecimalCodec"),
    ColumnDefinition("Legs", "[D", component="double"),
    ColumnDefinition(
        "Raw", "[B", component="byte", codec=f"{CODEC}.ByteArrayCodec", codec_args="4,notNull", codec_width=4
    ),
    ColumnDefinition("Texts", "[Ljava.lang.String;", component="java.lang.String"),
    ColumnDefinition(
        "Times", "[Lio.deephaven.db.tables.utils.DBDateTime;", component="io.deephaven.db.tables.utils.DBDateTime"
    ),
    ColumnDefinition("Tags", "io.deephaven.db.tables.libs.StringSet", encoding=2),
    ColumnDefinition("Extra", "com.acme.Thing", codec="com.acme.Codec", codec_args='a="<b>" & c', codec_width=12),
    ColumnDefinition("Other", "com.acme.Thing", codec="EXTERNALIZABLE"),
)


@pytest.mark.parametrize("storage_type", [2, 1])
def test_every_column_reads_back(storage_type: int) -> None:
    definition = Definition("NS", "T", COLUMNS, storage_type)
    text = tbl_schema_text(definition)
    schema = parse_schema(text.encode(), "").schema
    assert column_differences(tbl_schema(definition), schema) == ()
    again = {column.name: column for column in definition_of(schema).columns}
    charsets = {"Unset": 1, "Zero": 1}  # as Deephaven reads them
    for column in COLUMNS:
        wanted = replace(column, encoding=charsets.get(column.name, column.encoding))
        if column.name == "Days":  # has no codec, while the type has one here
            wanted = replace(wanted, codec="SERIALIZABLE")
        assert again[column.name] == wanted


def test_what_the_text_says() -> None:
    lines = tbl_schema_text(Definition("NS", "T", COLUMNS)).splitlines()
    assert lines[0] == '<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">'
    assert '  <Column name="Note" dataType="String" symbolTable="None" encoding="UTF_16"/>' in lines
    assert '  <Column name="Days" dataType="LocalDate" objectCodec="SERIALIZABLE"/>' in lines
    assert '  <Column name="Tags" dataType="StringSet"/>' in lines
    assert '  <Column name="Date" dataType="String" columnType="Partitioning"/>' in lines


@pytest.mark.parametrize("name", ["nested-partitioned", "splayed"])
def test_golden_definitions(name: str) -> None:
    definition = decode_tbl((GOLDEN / f"{name}.tbl").read_bytes(), name)
    if name == "splayed":  # a splayed table has no partitioning column, which the golden one has
        definition = replace(definition, columns=definition.columns[1:])
    text = tbl_schema_text(definition)
    assert lost_in_text(definition, text) == ()
    assert ("SplayedOnDisk" in text) == (name == "splayed")


def test_a_table_of_ours_keeps_its_schema() -> None:
    schema = parse_schema(CODED, "").schema
    definition = decode_tbl(encode_tbl(schema), "x")
    again = parse_schema(tbl_schema_text(definition).encode(), "").schema
    assert column_differences(schema, again) == ()
    assert encode_tbl(again) == encode_tbl(schema)


def test_an_extended_layout_is_stated() -> None:
    several = (*COLUMNS, ColumnDefinition("Region", "java.lang.String", 4))
    with pytest.raises(SettingsError, match="extended layout"):
        tbl_schema_text(Definition("NS", "T", several, EXTENDED))
    with pytest.raises(SettingsError, match="not of an extended layout"):
        tbl_schema_text(Definition("NS", "T", COLUMNS), extended="parquet:kv")
    text = tbl_schema_text(Definition("NS", "T", several, EXTENDED), extended="parquet:kv")
    assert lost_in_text(Definition("NS", "T", several, EXTENDED), text) == ()
    assert parse_schema(text.encode(), "").schema.extended == "parquet:kv"


def test_a_width_that_no_codec_has_is_refused() -> None:
    wide = replace(COLUMNS[8], codec_width=7)
    definition = Definition("NS", "T", (COLUMNS[0], wide))
    with pytest.raises(SchemaParseError, match="E117"):
        lost_in_text(definition, tbl_schema_text(definition))
