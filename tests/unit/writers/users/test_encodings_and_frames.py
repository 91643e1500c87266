"""What ``save_table`` makes of encodings of Arrow and of frames of pandas and polars: their values, or a way on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sparkhaven
from sparkhaven.store.errors import InvalidNameError, SchemaMismatchError, SettingsError, SparkhavenError
from tests.support.writers.import_cases import small

UUID = b"abcdefghijklmnop"
AS_TEXT = "61626364-6566-6768-696a-6b6c6d6e6f70"


def coded(values: pa.Array, *codes: int | None, index: pa.DataType | None = None) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, index or pa.int8()), values)


def runs(values: pa.Array, *ends: int) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), values)


def extension(kind: Any, storage: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, storage)


VIEWS = pa.array(["a", "b"], pa.string_view())
EIGHT = pa.array([1, 0, None], pa.int8())
ARROW: dict[str, tuple[pa.Array, list[Any]]] = {
    "views": (pa.array(["a", None], pa.string_view()), ["a", None]),
    "a dictionary of views": (coded(VIEWS, 1, None, 0), ["b", None, "a"]),
    "a dictionary of bytes": (coded(pa.array([b"a"], pa.binary_view()), 0, None), [b"a", None]),
    "a dictionary of dictionaries": (coded(coded(VIEWS, 1, 0), 0, 1), ["b", "a"]),
    "a dictionary with a null": (coded(pa.array(["a", None]), 0, 1, None), ["a", None, None]),
    "a dictionary of whole numbers": (coded(pa.array([5, 6]), 1, None), [6, None]),
    "a dictionary of dates": (coded(pa.array([dt.date(2024, 1, 2)]), 0, None), [dt.date(2024, 1, 2), None]),
    "a dictionary of lists": (coded(pa.array([[1], [2, 3]]), 1, None, 0), [[2, 3], None, [1]]),
    "a dictionary of UUIDs": (coded(extension(pa.uuid(), pa.array([UUID], pa.binary(16))), 0, None), [AS_TEXT, None]),
    "a dictionary by wide indices": (coded(VIEWS, 1, 0, index=pa.uint64()), ["b", "a"]),
    "runs of texts": (runs(pa.array(["a", None]), 2, 3), ["a", "a", None]),
    "runs of views": (runs(VIEWS, 2, 3), ["a", "a", "b"]),
    "runs of a dictionary": (runs(coded(VIEWS, 0, None), 1, 3), ["a", None, None]),
    "a part of runs": (runs(pa.array([1, 2, 3]), 2, 4, 6).slice(1, 4), [1, 2, 2, 3]),
    "lists of views": (pa.array([["a", None], None], pa.list_(pa.string_view())), [["a", None], None]),
    "lists of a dictionary": (pa.ListArray.from_arrays([0, 2], coded(VIEWS, 1, None)), [["b", None]]),
    "views of lists": (pa.array([[1], None, []], pa.list_view(pa.int64())), [[1], None, []]),
    "large views of lists": (pa.array([["a"], None], pa.large_list_view(pa.string())), [["a"], None]),
    "lists of one length": (pa.array([[1.5, 2.5], None], pa.list_(pa.float64(), 2)), [[1.5, 2.5], None]),
    "lists of small numbers": (pa.array([[-128, None]], pa.list_(pa.int8())), [[-128, None]]),
    "lists of numbers without sign": (pa.array([[2**32 - 1]], pa.list_(pa.uint32())), [[2**32 - 1]]),
    "UUIDs": (extension(pa.uuid(), pa.array([UUID, None], pa.binary(16))), [AS_TEXT, None]),
    "JSON": (extension(pa.json_(), pa.array(['{"a":1}', None])), ['{"a":1}', None]),
    "Booleans of a byte": (extension(pa.bool8(), EIGHT), [True, False, None]),
}


def saved(root: Path, data: Any, column: str = "C") -> list[Any]:
    sparkhaven.save_table(root, "me.T", data)
    values: list[Any] = sparkhaven.open_table(root, "me.T").to_arrow([column], dictionaries=False)[column].to_pylist()
    return values


@pytest.mark.parametrize("name", ARROW)
def test_encodings_of_arrow_are_saved_by_their_values(tmp_path: Path, name: str) -> None:
    array, expected = ARROW[name]
    assert saved(tmp_path, pa.table({"C": array})) == expected
    assert saved(tmp_path, pa.table({"C": array.slice(1)})) == expected[1:]


def test_they_are_merged_by_their_values(tmp_path: Path) -> None:
    layout = small(tmp_path)
    frame = pa.table({"Sym": coded(VIEWS, 1, None), "X": runs(pa.array([7], pa.int32()), 2)})
    sparkhaven.merge_frame(frame, layout.root, "NS.T", "2026-11-20")
    read = sparkhaven.open_table(layout.root, "NS.T").to_arrow(["Sym", "X"], dictionaries=False)
    assert sorted(read.to_pylist(), key=str) == [{"Sym": "b", "X": 7}, {"Sym": None, "X": 7}]


FRAMES: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "Categorical": (lambda: pl.DataFrame({"C": ["a", None]}, schema={"C": pl.Categorical}), ["a", None]),
    "Enum": (lambda: pl.DataFrame({"C": ["a", "b"]}, schema={"C": pl.Enum(["b", "a"])}), ["a", "b"]),
    "Array": (lambda: pl.DataFrame({"C": [[1.0], None]}, schema={"C": pl.Array(pl.Float64, 1)}), [[1.0], None]),
    "List": (lambda: pl.DataFrame({"C": [["a"], None]}), [["a"], None]),
    "List of Categorical": (lambda: pl.DataFrame({"C": [["a"]]}, schema={"C": pl.List(pl.Categorical)}), [["a"]]),
    "categories of texts": (lambda: pd.DataFrame({"C": pd.Categorical(["a", None], ordered=True)}), ["a", None]),
    "categories of numbers": (lambda: pd.DataFrame({"C": pd.Categorical([2, 1, 2])}), [2, 1, 2]),
    "rows of a slice": (lambda: pd.DataFrame({"C": [1, 2, 3]})[1:], [2, 3]),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
def test_frames_are_saved_by_their_values(tmp_path: Path, name: str) -> None:
    make, expected = FRAMES[name]
    assert saved(tmp_path, make()) == expected


def test_an_index_of_pandas_with_names_becomes_columns(tmp_path: Path) -> None:
    frame = pd.DataFrame({"C": [1]}, index=pd.MultiIndex.from_tuples([("a", 5)], names=["A", "B"]))
    assert (saved(tmp_path, frame), saved(tmp_path, frame, "A"), saved(tmp_path, frame, "B")) == ([1], ["a"], [5])


ROW = pd.DataFrame({"C": [1]})
TWO_LEVELS = pd.MultiIndex.from_tuples([("a", "x")])
OPAQUE = extension(pa.opaque(pa.int64(), "x", "y"), pa.array([1]))
REFUSED: dict[str, tuple[Callable[[], Any], type[SparkhavenError], str]] = {
    "index of times": (lambda: ROW.set_axis(pd.DatetimeIndex(["2020-01-01"])), SettingsError, "rename_axis"),
    "index of texts": (lambda: ROW.set_axis(["x"]), SettingsError, "reset_index(drop=True)"),
    "index of chosen rows": (lambda: pd.DataFrame({"C": [1, 2, 3]})[lambda f: f.C > 1], SettingsError, "reset_index"),
    "index with half a name": (
        lambda: ROW.set_axis(pd.MultiIndex.from_tuples([("a", 1)], names=["A", None])), SettingsError, "rename_axis"),
    "index of a column's name": (lambda: ROW.rename_axis("C"), SettingsError, "rename_axis"),
    "names of two levels": (lambda: ROW.set_axis(TWO_LEVELS, axis=1), InvalidNameError, "name"),
    "mixed values": (lambda: pd.DataFrame({"C": [1, "a"]}), SettingsError, "one type"),
    "complex numbers": (lambda: pd.DataFrame({"C": [1j]}), SettingsError, "one type"),
    "a column twice": (lambda: pd.DataFrame([[1, 2]], columns=["C", "C"]), SettingsError, "leave it out"),
    "periods": (lambda: pd.DataFrame({"C": pd.period_range("2020", periods=1)}), SchemaMismatchError, "storage"),
    "a Series of pandas": (lambda: ROW["C"], SettingsError, "to_frame"),
    "a Series of polars": (lambda: pl.Series("C", [1]), SettingsError, "to_frame"),
    "a lazy frame": (lambda: pl.LazyFrame({"C": [1]}), SettingsError, "collect"),
    "objects": (lambda: pl.DataFrame({"C": [object()]}, schema={"C": pl.Object}), SettingsError, "leave it out"),
    "128 bits": (lambda: pl.DataFrame({"C": [1]}, schema={"C": pl.Int128}), SettingsError, "one type"),
    "an extension": (
        lambda: pa.table({"C": OPAQUE}), SchemaMismatchError, "storage"),
    "lists of large numbers": (
        lambda: pa.table({"C": pa.array([[1]], pa.list_(pa.uint64()))}), SchemaMismatchError, "Cast the elements"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_saved_is_told_with_what_to_type(tmp_path: Path, name: str) -> None:
    make, kind, hint = REFUSED[name]
    data = make()
    with pytest.raises(kind) as caught:
        sparkhaven.save_table(tmp_path, "me.T", data)
    assert hint in str(caught.value.hint)
    assert not (tmp_path / "Users").exists() or not list((tmp_path / "Users").rglob("T"))
