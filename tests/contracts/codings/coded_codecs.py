"""The contract of types with a codec: that of every codec, against a decoding in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkhaven.store.errors import CorruptFileError, SchemaMismatchError
from sparkhaven.store.format.column.charset import StoredEnds, encode_ends
from sparkhaven.store.format.column.codecs import Base, encode_column
from sparkhaven.store.format.column.coded import decode_coded, decode_coded_blobs, encode_coded, encode_coded_blobs
from sparkhaven.store.format.column.prefix import DATA_OFFSET
from sparkhaven.store.types.codings.coding import BlobCoding, FixedCoding
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage
from tests.contracts.codecs import COUNTS, FS, QUICK, CodecContract, bits
from tests.oracles import codings as oracle
from tests.support.tables.naive_codecs import blobs, entries, sets

PACKAGE = "io.deephaven.util.codec"
TEXTS = ["", "a", "\0", "é", "\uffee", "\U0001f600", "x\U0010ffff", "y" * 300]
ANY_TEXT = st.sampled_from(TEXTS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


class CodedContract(CodecContract):
    """Clauses for one codec with its arguments. ``codec``: its simple name, or None for that of the type's row.

    ``refused``: values that cannot be stored. ``damaged``: bytes that stand for no value, as long as its first
    boundary value or shorter.
    """

    spelling: ClassVar[str]
    codec: ClassVar[str | None] = None
    arguments: ClassVar[str] = ""
    storage: ClassVar[Storage] = Storage.FIXED
    null: ClassVar[bytes] = b""
    decode: ClassVar[Callable[[bytes], Any]]
    borders: ClassVar[Sequence[Any]]
    unstorable: ClassVar[Sequence[Any]] = ()
    damaged: ClassVar[bytes | None] = None

    @pytest.fixture
    def column(self) -> Column:
        codec = self.codec and f"{PACKAGE}.{self.codec}"
        kind = data_type(self.spelling, codec, self.arguments)
        return Column("C", kind, Kind.NORMAL, self.storage, 5, codec=codec, codec_args=self.arguments)

    def array(self, column: Column, values: Sequence[Any]) -> pa.Array:
        """Dates and times are counts."""
        kind = column.type.arrow
        return pa.array(values, COUNTS[kind]).view(kind) if kind in COUNTS else pa.array(values, kind)

    def naive(self, directory: Path, column: Column, rows: int) -> pa.Array:
        decode = type(self).decode
        if self.storage is Storage.BLOB:
            return self.array(column, blobs(directory, "C", rows, decode))
        return self.array(column, entries(directory, "C", rows, decode, column.width, self.null))

    def boundaries(self, column: Column) -> list[Any]:
        return list(self.borders)

    def alone(self, column: Column, values: Sequence[Any]) -> None:
        """The coding by itself, without the compiled core: the same bytes, and the same values of them."""
        coding, array = column.type.coding, self.array(column, values)
        if isinstance(coding, FixedCoding):
            written, bad = oracle.encode(coding, array)
            back, wrong = oracle.decode(coding, written)
            data = encode_coded(array, coding)
            whole = decode_coded(pa.py_buffer(data), coding, "C")
            assert bytes(data) == written.tobytes()
        else:
            assert isinstance(coding, BlobCoding)
            stops, written, bad = coding.encode(array)
            starts = np.concatenate([np.zeros(1, np.int64), stops])
            back, wrong = coding.decode(starts, pa.py_buffer(written.tobytes()))
            ends, data = encode_coded_blobs(array, coding, 0)
            whole = decode_coded_blobs(
                StoredEnds(pa.py_buffer(ends), 0, "LITTLE_ENDIAN", "C"), pa.py_buffer(data), coding
            )
            assert bytes(data) == written.tobytes() and bytes(ends) == bytes(encode_ends(stops, 0))
        assert bad is None and wrong is None
        assert bits(back) == bits(whole) == bits(array)

    def test_the_coding_alone_makes_the_same_bytes(self, column: Column) -> None:
        values = self.mixed(column)
        for part in (values, values[1:-1] * 50, [None, None], []):
            self.alone(column, part)

    @pytest.mark.slow
    def test_any_values_have_the_same_bytes_by_the_coding_alone(self, column: Column) -> None:
        values = st.lists(st.none() | self.strategy(column), max_size=80)

        @QUICK
        @given(values)
        def run(chosen: list[Any]) -> None:
            self.alone(column, chosen)

        run()

    def test_a_value_that_cannot_be_stored_is_refused_with_its_row(self, column: Column) -> None:
        for value in self.unstorable:
            array = self.array(column, [self.borders[0], None, value])
            with pytest.raises(SchemaMismatchError, match="value cannot be stored in the column") as caught:
                encode_column(column, array, Base(rows=7))
            assert caught.value.where == "column C, row 9"

    def test_values_of_another_type_are_refused(self, column: Column) -> None:
        with pytest.raises(SchemaMismatchError):
            encode_column(column, pa.array([1], pa.int16()), Base())

    def test_bytes_of_no_value_are_refused_with_their_row(self, tmp_path: Path, column: Column) -> None:
        if self.damaged is None:
            return
        sizes, rows = self.write(tmp_path, column, [None, self.borders[0], None])
        name, start = ("C.bytes", 0) if self.storage is Storage.BLOB else ("C.dat", DATA_OFFSET + column.width)
        FS.write_at(tmp_path / name, start, self.damaged)
        error = self.refused(CorruptFileError, tmp_path, column, sizes, rows)
        assert error.what == "bytes stand for no value of the column's codec"
        assert error.where == f"{tmp_path / 'C.dat'}, row 1"


class SetContract(CodecContract):
    """Clauses for sets: one column's table has 64 texts, and null is stored as the empty set."""

    @pytest.fixture
    def column(self) -> Column:
        return Column("C", data_type("StringSet"), Kind.NORMAL, Storage.SET, 5, "UTF_8")

    def boundaries(self, column: Column) -> list[Any]:
        return [[], TEXTS[:2], TEXTS[3:], ["a"], [f"t{number}" for number in range(50)], TEXTS[:1]]

    def strategy(self, column: Column) -> st.SearchStrategy[Any]:
        return st.lists(st.sampled_from([text for text in TEXTS if text != "\0"]))

    def array(self, column: Column, values: Sequence[Any]) -> pa.Array:
        clean = [value if value is None else [text for text in value if text != "\0"] for value in values]
        return pa.array(clean, column.type.arrow)

    def expected(self, column: Column, values: Sequence[Any]) -> pa.Array:
        rows = [sorted(set(value or ()) - {"\0"}, key=lambda text: text.encode("utf-16-be")) for value in values]
        return pa.array(rows, column.type.arrow)

    def naive(self, directory: Path, column: Column, rows: int) -> pa.Array:
        return pa.array(sets(directory, "C", rows), column.type.arrow)

    def test_64_texts_fit_and_one_more_is_refused(self, tmp_path: Path, column: Column) -> None:
        texts = [f"t{number:02}" for number in range(65)]
        self.reads_back(tmp_path, column, [texts[:10], texts[10:64]], [texts[:64], []])
        array = pa.array([texts[:64], ["t03", "t64"]], column.type.arrow)
        with pytest.raises(SchemaMismatchError) as caught:
            encode_column(column, array, Base(rows=7))
        assert (caught.value.where, caught.value.found) == ("column C, row 8", "'t64'")

    def test_a_bit_without_a_text_is_refused_with_its_row(self, tmp_path: Path, column: Column) -> None:
        sizes, rows = self.write(tmp_path, column, [["a"], ["b"]])
        FS.write_at(tmp_path / "C.dat", DATA_OFFSET + 8, (4).to_bytes(8, "little"))
        error = self.refused(CorruptFileError, tmp_path, column, sizes, rows)
        assert (error.where, error.found) == (f"{tmp_path / 'C.dat'}, row 1", "0x4")

    def test_null_among_the_texts_is_refused(self, column: Column) -> None:
        with pytest.raises(SchemaMismatchError, match="value cannot be stored"):
            encode_column(column, pa.array([["a", None]], column.type.arrow), Base())


class ArrayContract(CodedContract):
    """Clauses for arrays of a primitive: elements are those of a border, alone and together."""

    storage = Storage.BLOB
    elements: ClassVar[Sequence[Any]]
    damaged = b"\xac\xed\x00\x06"

    def boundaries(self, column: Column) -> list[Any]:
        return [[self.elements[0]], [], list(self.elements), [self.elements[-1]] * 300]

    def strategy(self, column: Column) -> st.SearchStrategy[Any]:
        return st.lists(st.sampled_from(list(self.elements)), max_size=6)
