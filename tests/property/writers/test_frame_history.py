"""Frames of random columns, types and dates: what history has of them is what they had."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.validation.date_validation import validate_date
from tests.support.writers.frame_cases import take
from tests.support.writers.import_cases import empty
from tests.support.writers.merge_runs import FS, merge

NS_T = TableName("NS", "T")
DATES = ["2024-03-05", "2024-03-06", "other"]
_SMALL = st.integers(-120, 120)
_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)
# data type of the column: attributes, Arrow types that a frame may have, values
KINDS: dict[str, tuple[str, list[pa.DataType], st.SearchStrategy[Any]]] = {
    "byte": ("", [pa.int8(), pa.int64()], _SMALL),
    "short": ("", [pa.int8(), pa.int16(), pa.uint64()], st.integers(0, 120)),
    "int": ("", [pa.int16(), pa.int32(), pa.float64()], _SMALL),
    "long": ("", [pa.int32(), pa.int64()], _SMALL),
    "float": ("", [pa.float32(), pa.float64(), pa.int8()], _SMALL),
    "double": ("", [pa.float64(), pa.float32()], st.floats(width=16)),
    "Boolean": ("", [pa.bool_()], st.booleans()),
    "char": ("", [pa.uint16(), pa.int32()], st.integers(0, 120)),
    "Instant": ("", [pa.timestamp("us", "UTC"), pa.timestamp("ns", "America/New_York")], st.integers(0, 10**15)),
    "String": ("", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())], _TEXTS),
    "Note": ('dataType="String" symbolTable="None" encoding="UTF_8"', [pa.string(), pa.string_view()], _TEXTS),
    "LocalDate": ('dataType="java.time.LocalDate"', [pa.date32()], st.dates()),
    "BigDecimal": (
        'dataType="BigDecimal" objectCodec="io.deephaven.util.codec.BigDecimalCodec" objectCodecArguments="18,6"',
        [pa.decimal128(9, 2), pa.int8()],
        st.integers(-100, 100),
    ),
}


def comparable(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


@st.composite
def frames(draw: st.DrawFn) -> tuple[bytes, pa.Table]:
    """The columns of a schema and rows for them, with nulls."""
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=5))
    count = draw(st.integers(1, 40))
    columns, arrays = [], {}
    for number, name in enumerate(kinds):
        attributes, types, values = KINDS[name]
        kind = draw(st.sampled_from(types))
        group = 'columnType="Grouping"' if number == 0 and name in ("String", "int", "long") else ""
        text = attributes or f'dataType="{name}"' + (' encoding="UTF_8"' if name == "String" else "")
        columns.append(f'<Column name="C{number}" {text} {group}/>')
        drawn = draw(st.lists(st.none() | values, min_size=count, max_size=count))
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        array = pa.array([float(v) if v is not None and pa.types.is_floating(plain) else v for v in drawn], plain)
        arrays[f"C{number}"] = array.dictionary_encode() if pa.types.is_dictionary(kind) else array
    dates = draw(st.lists(st.sampled_from(DATES), min_size=count, max_size=count))
    order = draw(st.permutations([*arrays, "Date"]))
    xml = '<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">'
    xml += f'<Column name="Date" dataType="String" columnType="Partitioning"/>{"".join(columns)}</Table>'
    return xml.encode(), pa.table({**arrays, "Date": dates}).select(order)


def rows_by_date(layout: Layout, names: list[str]) -> dict[str, list[str]]:
    table = open_table(layout.root, "NS.T").to_arrow(dictionaries=False)
    found = defaultdict(list)
    for row in table.select(["Date", *names]).to_pylist():
        found[row.pop("Date")].append(str([comparable(v) for v in row.values()]))
    return {date: sorted(rows) for date, rows in found.items()}


def expected(frame: pa.Table, layout: Layout, names: list[str]) -> dict[str, list[str]]:
    """The values in the types that a table shows."""
    kinds = open_table(layout.root, "NS.T").arrow_schema(dictionaries=False)
    shown = {"Date": frame["Date"].to_pylist()}
    for name in names:
        array = frame[name].combine_chunks()
        array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        shown[name] = array.cast(kinds.field(name).type).to_pylist()
    wanted = defaultdict(list)
    for index, date in enumerate(shown["Date"]):
        wanted[date].append(str([comparable(shown[name][index]) for name in names]))
    return {date: sorted(rows) for date, rows in wanted.items()}


@settings(max_examples=40, deadline=None)
@given(case=frames(), memory=st.sampled_from([1 << 12, 1 << 30]), format_=st.sampled_from(["deephaven", "parquet"]))
def test_history_has_what_a_frame_had(case: tuple[bytes, pa.Table], memory: int, format_: str) -> None:
    xml, frame = case
    with tempfile.TemporaryDirectory() as root:
        layout = empty(Path(root) / "db", xml)
        names = [name for name in frame.column_names if name != "Date"]
        dates = sorted(set(frame["Date"].to_pylist()))
        done = take(layout, frame, table=NS_T, task_memory=memory, format=format_)
        assert [(d.value, d.outcome) for d in done] == [(date, "imported") for date in dates]
        wanted = expected(frame, layout, names)
        assert rows_by_date(layout, names) == wanted
        assert [f for f in verify(FS, layout, NS_T, deep=True).findings if f.severity == "error"] == []
        assert all(validate_date(TablePlace(FS, layout, NS_T), date).passed for date in dates)
        assert {d.outcome for d in take(layout, frame, table=NS_T)} == {"unchanged"}
        assert {d.outcome for d in merge(layout, *dates, table=NS_T, rewrite=True)} == {"merged"}
        assert rows_by_date(layout, names) == wanted
