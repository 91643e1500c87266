"""Every codec of the table passes one suite: nine types of a fixed width, and texts in both storages."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from sparkhaven.store.format.column.codecs import ROWS
from sparkhaven.store.scan.column_file import read_column
from sparkhaven.store.types.model import Column, Storage
from tests.contracts.codecs import FS, FixedContract, TextContract


class TestBoolean(FixedContract):
    name = "Boolean"


class TestByte(FixedContract):
    name = "byte"


class TestChar(FixedContract):
    name = "char"


class TestShort(FixedContract):
    name = "short"


class TestInt(FixedContract):
    name = "int"


class TestLong(FixedContract):
    name = "long"


class TestFloat(FixedContract):
    name = "float"


class TestDouble(FixedContract):
    name = "double"


class TestInstant(FixedContract):
    name = "Instant"


class TestSymbols(TextContract):
    storage = Storage.SYMBOL

    def test_each_text_has_one_number(self, tmp_path: Path, column: Column) -> None:
        values = self.mixed(column)
        sizes, rows = self.write(tmp_path, column, values, values)
        assert sizes["S.sym"] == 8 * len({*values} - {None})
        assert read_column(FS, tmp_path, column, sizes, rows).type == pa.dictionary(pa.int32(), pa.string())


class TestBlobs(TextContract):
    storage = Storage.BLOB


def test_no_codec_is_without_its_class() -> None:
    fixed = {(Storage.FIXED, suite.name) for suite in FixedContract.__subclasses__()}
    texts = {(suite.storage, "String") for suite in TextContract.__subclasses__()}
    sets = {(Storage.SET, "StringSet")}  # in test_coded_codecs, as types with a codec
    assert {(row.storage, row.type) for row in ROWS} == fixed | texts | sets
