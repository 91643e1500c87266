"""The contract of a codec: what is encoded reads back, against a decoding by numpy alone, and damage is refused."""

from __future__ import annotations

import math
import pickle
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.store.errors import CorruptFileError, SchemaMismatchError
from sparkhaven.store.format.column.codecs import Base, encode_column
from sparkhaven.store.format.column.prefix import encode_prefix
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.column_file import open_column, read_column
from sparkhaven.store.types.datatypes import BY_NAME
from sparkhaven.store.types.model import CHARSETS, Column, Kind, Storage
from tests.support.tables.big_endian import big_endian
from tests.support.tables.column_files import append_column
from tests.support.tables.naive_reader import ENTRIES, read

FS = Fs()
QUICK = settings(max_examples=40, deadline=None)
INFINITIES = [0.0, -0.0, math.inf, -math.inf, math.nan]
PYTHON_CODECS = {name: name.lower().replace("iso_8859_1", "latin-1").replace("us_", "") for name in CHARSETS}
LAST_CHARACTER = {"ISO_8859_1": 0xFF, "US_ASCII": 0x7F}
NASTY = ["", "a", "AAPL", "\x7f", "é", "ÿþ", "日本", "\U0001f600", "x\U0001f600\U0010ffffy", "\ufeff", "\ufffez", "a\0"]


COUNTS = {pa.float32(): pa.int32(), pa.float64(): pa.int64(), pa.date32(): pa.int32(), pa.time64("ns"): pa.int64()}


def bits(array: pa.Array) -> list[Any]:
    """Values with floats as their bits, so that NaN is equal to itself and -0.0 is not 0.0; times as their counts."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.cast(kind.value_type)
    elif pa.types.is_map(kind):
        pairs = list(zip(array.keys.to_pylist(), bits(array.items), strict=True))
        return _lists(array, pairs)
    elif pa.types.is_list(kind):
        return _lists(array, bits(array.values))
    count = COUNTS.get(array.type, pa.int64() if pa.types.is_timestamp(array.type) else array.type)
    return list(array.view(count).to_pylist())


def _lists(array: pa.Array, elements: list[Any]) -> list[Any]:
    ends = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [elements[ends[row] : ends[row + 1]] if valid[row] else None for row in range(len(array))]


class CodecContract(ABC):
    """Clauses for every codec."""

    @pytest.fixture
    @abstractmethod
    def column(self) -> Column:
        """A column of the storage and type."""

    @abstractmethod
    def boundaries(self, column: Column) -> list[Any]:
        """The values at the borders of the type."""

    @abstractmethod
    def strategy(self, column: Column) -> st.SearchStrategy[Any]:
        """Any value that the column can store."""

    def array(self, column: Column, values: Sequence[Any]) -> pa.Array:
        """Values as writers give them."""
        return pa.array(values, pa.string() if column.type.name == "String" else column.type.arrow)

    @abstractmethod
    def naive(self, directory: Path, column: Column, rows: int) -> pa.Array:
        """The values by numpy alone."""

    def expected(self, column: Column, values: Sequence[Any]) -> pa.Array:
        """Values as readers give them."""
        return self.array(column, values)

    def mixed(self, column: Column) -> list[Any]:
        """All boundaries, with nulls before, between and behind them, in chunks of which one is empty."""
        values = self.boundaries(column)
        return [None, *values, None, None, *values[::-1], None]

    def write(self, directory: Path, column: Column, *chunks: Sequence[Any]) -> tuple[dict[str, int], int]:
        """Appends the chunks one after the other; committed bytes and rows."""
        directory.mkdir(exist_ok=True)
        return append_column(FS, directory, column, [self.array(column, chunk) for chunk in chunks])

    def reads_back(self, directory: Path, column: Column, *chunks: Sequence[Any]) -> None:
        """By a naive reader, whole, and in part, in both byte orders."""
        expected = self.expected(column, [value for chunk in chunks for value in chunk])
        sizes, rows = self.write(directory, column, *chunks)
        assert bits(self.naive(directory, column, rows)) == bits(expected)
        for _ in range(2):
            whole = read_column(FS, directory, column, sizes, rows)
            whole.validate(full=True)
            assert bits(whole) == bits(expected)
            part = open_column(FS, directory, column, sizes, rows).read(rows // 3, rows - rows // 4)
            part.validate(full=True)
            assert bits(part) == bits(expected)[rows // 3 : rows - rows // 4]
            big_endian(directory, column, laterKey="is ignored")

    def refused(self, kind: type[Exception], directory: Path, column: Column, sizes: dict[str, int], rows: int) -> Any:
        """The error of reading, which pickles."""
        with pytest.raises(kind) as caught:
            read_column(FS, directory, column, sizes, rows)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
        return caught.value

    @pytest.mark.slow
    def test_any_chunks_read_back(self, column: Column) -> None:
        values = st.none() | self.strategy(column)

        @QUICK
        @given(st.lists(st.lists(values, max_size=12), min_size=1, max_size=3))
        def run(chunks: list[list[Any]]) -> None:
            with tempfile.TemporaryDirectory() as directory:
                self.reads_back(Path(directory), column, *chunks)

        run()

    def test_boundaries_and_nulls_read_back(self, tmp_path: Path, column: Column) -> None:
        values = self.mixed(column)
        self.reads_back(tmp_path / "chunks", column, values[:3], [], values[3:])
        self.reads_back(tmp_path / "nulls", column, [None], [None, None])

    def test_no_rows(self, tmp_path: Path, column: Column) -> None:
        sizes, rows = self.write(tmp_path, column, [])
        assert (set(sizes.values()), rows) == ({0}, 0)
        assert open_column(FS, tmp_path, column, sizes, 0).read().to_pylist() == []

    def test_each_slice_and_no_other(self, tmp_path: Path, column: Column) -> None:
        values = self.mixed(column)
        sizes, rows = self.write(tmp_path, column, values)
        opened, expected = open_column(FS, tmp_path, column, sizes, rows), bits(self.expected(column, values))
        for start in range(0, rows + 1, 2):
            for stop in range(start, rows + 1, 3):
                assert bits(opened.read(start, stop)) == expected[start:stop], (start, stop)
        for start, stop in ((1, rows + 1), (2, 1), (-1, 1)):
            with pytest.raises(IndexError, match=rf"rows \[{start}, {stop}\) of {rows}"):
                opened.read(start, stop)

    def test_bytes_behind_the_committed_ones_are_not_read(self, tmp_path: Path, column: Column) -> None:
        values = self.mixed(column)
        sizes, rows = self.write(tmp_path, column, values)
        for name in sizes:
            FS.write_at(tmp_path / name, (tmp_path / name).stat().st_size, b"never committed")
        assert bits(read_column(FS, tmp_path, column, sizes, rows)) == bits(self.expected(column, values))

    def test_a_column_without_file_has_no_value(self, tmp_path: Path, column: Column) -> None:
        found = read_column(FS, tmp_path, column, {}, 3)
        assert found.to_pylist() == [[] if column.storage is Storage.SET else None] * 3  # sets have no null
        sizes, rows = self.write(tmp_path, column, self.mixed(column))
        assert found.type == read_column(FS, tmp_path, column, sizes, rows).type

    def test_a_cut_file_is_refused(self, tmp_path: Path, column: Column) -> None:
        sizes, rows = self.write(tmp_path, column, self.mixed(column))
        for name in sizes:
            whole = (tmp_path / name).read_bytes()
            for size in (0, 100, 4095, 4096, len(whole) - 1):
                if size < len(whole):
                    FS.truncate(tmp_path / name, size)
                    error = self.refused(CorruptFileError, tmp_path, column, sizes, rows)
                    assert error.what == "file is shorter than its committed length"
                    assert (error.where, error.found) == (f"{tmp_path / name}", f"{size} bytes")
                    FS.write_new(tmp_path / name, whole)

    def test_a_missing_file_is_refused(self, tmp_path: Path, column: Column) -> None:
        sizes, rows = self.write(tmp_path, column, self.mixed(column))
        for name in reversed(list(sizes)):
            FS.unlink(tmp_path / name)
            error = self.refused(CorruptFileError, tmp_path, column, sizes, rows)
            assert str(error) == (
                f"a committed file is missing\n  where: {tmp_path / name}\n  expected: the file\n  found: nothing\n"
                "  to do: restore the file from a copy. `sparkhaven verify --deep` lists all that is damaged"
            )

    def test_lengths_that_are_no_rows_are_refused(self, tmp_path: Path, column: Column) -> None:
        sizes, rows = self.write(tmp_path, column, self.mixed(column))
        error = self.refused(CorruptFileError, tmp_path, column, sizes, rows + 1)
        assert (error.what, error.expected, error.found) == (
            "committed bytes are not rows times width",
            f"{rows + 1} x {column.width} bytes",
            f"{rows * column.width} bytes",
        )
        for name in column.files[1:]:
            less = {file: size for file, size in sizes.items() if file != name}
            error = self.refused(CorruptFileError, tmp_path, column, less, rows)
            assert error.what == "companion file has no committed length"

    def test_the_file_of_another_column_is_refused(self, tmp_path: Path, column: Column) -> None:
        sizes, rows = self.write(tmp_path, column, self.mixed(column))
        error = self.refused(CorruptFileError, tmp_path, replace(column, id=9), sizes, rows)
        assert error.what == f"file of column {column.name} says that it belongs to another column"
        assert (error.expected, error.found) == ("columnId 9", f"columnId {column.id}")

    def test_another_type_or_width_is_refused(self, tmp_path: Path, column: Column) -> None:
        sizes, rows = self.write(tmp_path, column, self.mixed(column))
        for name in {"int", "long", "short", "double"} - {column.type.name}:
            other = Column(column.name, BY_NAME[name], Kind.NORMAL, Storage.FIXED, column.id)
            FS.write_at(tmp_path / column.files[0], 0, encode_prefix(other))
            kind = SchemaMismatchError if other.width == column.width else (SchemaMismatchError, CorruptFileError)
            error = self.refused(kind, tmp_path, column, sizes, rows)  # type: ignore[arg-type]
            assert error.what == f"column {column.name} is declared one way and stored another", name
            assert f"width {other.width}" in error.found and f"width {column.width}" in error.expected


class FixedContract(CodecContract):
    """Clauses for entries of a fixed width."""

    name: ClassVar[str]

    @pytest.fixture
    def column(self) -> Column:
        return Column("C", BY_NAME[self.name], Kind.NORMAL, Storage.FIXED, 5)

    def array(self, column: Column, values: Sequence[Any]) -> pa.Array:
        if self.name == "Instant":
            return pa.array(values, pa.int64()).cast(column.type.arrow)
        return super().array(column, values)

    def naive(self, directory: Path, column: Column, rows: int) -> pa.Array:
        return self.array(column, read(directory, column.name, self.name, rows))

    def boundaries(self, column: Column) -> list[Any]:
        dtype = np.dtype(ENTRIES[self.name][0])
        if self.name == "Boolean":
            return [True, False]
        if dtype.kind == "f":
            return [*INFINITIES, np.finfo(dtype).max.item(), np.finfo(dtype).tiny.item()]
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return [0, 1, low + 1, high] if low else [0, 1, high - 1]

    def strategy(self, column: Column) -> st.SearchStrategy[Any]:
        values = self.boundaries(column)
        if self.name == "Boolean":
            return st.booleans()
        if isinstance(values[0], float):
            floats = st.sampled_from(values) | st.floats(width=32 if column.width == 4 else 64)
            return floats.filter(lambda value: value != self.null)
        return st.integers(min(values), max(values))

    @property
    def null(self) -> Any:
        """The value that stands for null."""
        dtype, null = ENTRIES[self.name]
        return np.dtype(dtype).type(null).item()

    def test_the_null_value_itself_is_refused(self, column: Column) -> None:
        if self.name == "Boolean":
            return
        before = [*self.boundaries(column), None]
        array = self.array(column, [*before, self.null, None])
        with pytest.raises(SchemaMismatchError, match="equals the null value") as caught:
            encode_column(column, array, Base(rows=100))
        assert caught.value.where == f"column C, row {100 + len(before)}"

    def test_values_of_another_type_are_refused(self, column: Column) -> None:
        with pytest.raises(SchemaMismatchError) as caught:
            encode_column(column, pa.array([b"x"], pa.binary()), Base())
        assert caught.value.found == "binary"


class TextContract(CodecContract):
    """Clauses for texts, in each charset."""

    storage: ClassVar[Storage]

    @pytest.fixture(params=CHARSETS)
    def column(self, request: pytest.FixtureRequest) -> Column:
        return Column("S", BY_NAME["String"], Kind.NORMAL, self.storage, 1, request.param)

    def naive(self, directory: Path, column: Column, rows: int) -> pa.Array:
        kind = "symbol" if self.storage is Storage.SYMBOL else "blob"
        return pa.array(read(directory, "S", kind, rows, PYTHON_CODECS[str(column.encoding)]), pa.string())

    def boundaries(self, column: Column) -> list[Any]:
        last = LAST_CHARACTER.get(str(column.encoding), 0x10FFFF)
        return [text for text in NASTY if all(ord(c) <= last for c in text)] + [chr(last) * 300]

    def strategy(self, column: Column) -> st.SearchStrategy[Any]:
        last = LAST_CHARACTER.get(str(column.encoding), 0x10FFFF)
        alphabet = st.characters(max_codepoint=last, exclude_categories=["Cs"])
        texts = st.sampled_from(self.boundaries(column)) | st.text(alphabet, max_size=12)
        return texts.filter(lambda text: text != "\0")

    def test_text_that_a_charset_cannot_hold_is_refused(self, column: Column) -> None:
        last = LAST_CHARACTER.get(str(column.encoding), 0x10FFFF)
        bad = [text for text in ("é", "Ā", "a\U0001f600") if max(map(ord, text)) > last]
        for text in ("\0", *bad):
            if text == "\0" and str(column.encoding).startswith("UTF_16"):
                continue  # two bytes, which are no mark of an empty text
            array = pa.array(["ok", None, text, "", text], pa.string()).slice(1)
            for form in (array, array.dictionary_encode()):
                with pytest.raises(SchemaMismatchError, match="the charset of the column lacks") as caught:
                    encode_column(column, form, Base(rows=7))
                row = "column S, row 8" if self.storage is Storage.BLOB else "column S, symbol 0"
                assert caught.value.where == row
