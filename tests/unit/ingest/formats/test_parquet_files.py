"""Parquet files: values at the ends of their types, dates of any year, memory bounded by bytes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.content.raw_file import KnownFile, PlannedFile, planned_parquet
from sparkhaven.ingest.formats.parquet.typed_values import nested_text
from sparkhaven.ingest.spec import ColumnSpec, StreamSpec
from sparkhaven.store.foreign_parquet import BATCH_BYTES
from sparkhaven.store.io.fs import Fs
from tests.support.ingest.ingest_cases import decode, file_id, schema, stream, values

FAR = "outside the range of an Instant"
ZONED = ColumnSpec("v", zone="UTC")
INFINITE = 2**31 - 1  # what PostgreSQL's ``infinity`` becomes as a date


def _file(path: Path, array: pa.Array, **options: Any) -> Path:
    n = pa.array(range(len(array)), pa.int32())
    pq.write_table(pa.table({"n": n, "v": array}), path, **options)
    return path


def _decoded(path: Path, spec: StreamSpec, kind: str) -> tuple[list[Any], list[tuple[int, str]], list[Any]]:
    routed, rejects = decode(file_id(path), spec, schema(n="int", v=kind))
    payloads = [json.loads(row.payload or b"")["v"] for row in rejects.rows]
    return values(routed), [(row.line, row.explanation) for row in rejects.rows], payloads


@pytest.mark.parametrize("utc96", [False, True])
def test_old_timestamps_that_nanoseconds_do_not_reach_are_bad_rows(tmp_path: Path, utc96: bool) -> None:
    near = datetime(2013, 1, 1, 5, 0, 0, 123_456, UTC)
    far = [datetime(9999, 12, 31, tzinfo=UTC), datetime(2263, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)]
    array = pa.array([near, *far, None, near], pa.timestamp("us", "UTC"))
    path = _file(tmp_path / "a.parquet", array, use_deprecated_int96_timestamps=True)
    assert str(pq.ParquetFile(path).schema.column(1).physical_type) == "INT96"
    from sparkhaven.ingest.bad_rows import Rejects
    from tests.support.ingest.ingest_cases import decode_split

    spec = stream(ZONED, form="parquet")
    rejects = Rejects(spec.bad_rows)
    table = schema(n="int", v="Instant")
    routed = list(decode_split(Fs(), file_id(path), spec, table, rejects, known=KnownFile(utc96=utc96)))
    at = 1_357_016_400_123_456_000
    assert values(routed) == [at, None, at]
    assert [(row.line, row.explanation) for row in rejects.rows] == [(2, FAR), (3, FAR), (4, FAR)]
    assert rejects.rows[0].value.startswith("9999-12-31T00:00:00")
    assert json.loads(rejects.rows[0].payload or b"")["v"].startswith("9999-12-31T00:00:00")


_JULIAN = -210_866_716_800  # seconds: the day 1 of INT96; Arrow takes its day 0 for 1970-01-01


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(unit=st.sampled_from(["ms", "us", "ns"]), data=st.data())
def test_old_timestamps_are_exact_or_far(
    tmp_path_factory: pytest.TempPathFactory, unit: str, data: st.DataObject
) -> None:
    scale = {"ms": 10**6, "us": 10**3, "ns": 1}[unit]
    low, high = max(-(2**63) + 1, _JULIAN * 10**9 // scale), min(2**63 - 1, (2**31 - 1) * 86_400 * 10**9 // scale)
    wraps = st.integers(-12, 12).map(lambda n: n * 2**64 * 1000 // scale).filter(lambda v: low < v < high)
    counts = data.draw(st.lists(st.none() | st.integers(low, high) | st.integers(-100, 100) | wraps, min_size=1))
    path = tmp_path_factory.mktemp("int96") / "a.parquet"
    _file(path, pa.array(counts, pa.timestamp(unit, "UTC")), use_deprecated_int96_timestamps=True)
    (batch,) = planned_parquet(PlannedFile(Fs(), file_id(path)), utc96=True).batches(["v"])
    for row, count in enumerate(counts):
        there = batch.fields(row)["v"]
        if count is None:
            assert not there.is_valid
        elif -(2**63) <= count * scale < 2**63:
            assert (there.type.unit, there.value) == ("ns", count * scale)
        else:
            assert (there.type.unit, there.value) == ("ms", count * scale // 10**6)


def test_old_timestamps_in_arrays_are_exact_or_bad_rows(tmp_path: Path) -> None:
    us = [[253_402_214_400_000_000], [5, None, -7], None, [], [5, 253_402_214_400_000_000], [1]]
    array = pa.array(us, pa.list_(pa.timestamp("us")))
    path = _file(tmp_path / "a.parquet", array, use_deprecated_int96_timestamps=True)
    found, bad, payloads = _decoded(path, stream(ZONED, form="parquet"), "Instant[]")
    assert [row for row, _ in bad] == [1, 5]
    assert payloads[0] == ["9999-12-31T00:00:00"]
    assert len(found) == 4


_US = pa.timestamp("us")
_SHAPES: list[tuple[pa.DataType, Any]] = [
    (pa.list_(_US), lambda us: [0, None, us]),
    (pa.list_(pa.list_(_US)), lambda us: [[], None, [us, 1]]),
    (pa.map_(pa.string(), _US), lambda us: [("a", 1), ("b", us)]),
    (pa.struct({"a": pa.int32(), "t": _US}), lambda us: {"a": 1, "t": us}),
    (pa.struct({"l": pa.list_(_US)}), lambda us: {"l": [us]}),
]


@pytest.mark.parametrize(("kind", "made"), _SHAPES, ids=["list", "list of lists", "map", "struct", "list in a struct"])
def test_old_timestamps_inside_of_values_are_exact_or_far(tmp_path: Path, kind: pa.DataType, made: Any) -> None:
    far = 253_402_214_400_000_000
    counts = [5, far, None, 7, far]
    array = pa.array([None if us is None else made(us) for us in counts], kind)
    path = _file(tmp_path / "a.parquet", array, use_deprecated_int96_timestamps=True)
    (batch,) = planned_parquet(PlannedFile(Fs(), file_id(path)), utc96=True).batches(["v"])
    shown = [nested_text(batch.fields(row)["v"]) for row in range(len(counts))]
    assert ["9999-12-31" in text for text in shown] == [us == far for us in counts]
    assert "1970-01-01T00:00:00.000005" in shown[0]


@pytest.mark.parametrize(("zone", "reason"), [("UTC", FAR), (None, "has no time zone")])
def test_dates_beyond_the_year_9999_are_bad_rows(tmp_path: Path, zone: str | None, reason: str) -> None:
    days = pa.array([0, INFINITE, -(2**31) + 1, 3_000_000, -1_000_000], pa.int32()).view(pa.date32())
    path = _file(tmp_path / "a.parquet", days)
    found, bad, payloads = _decoded(path, stream(ColumnSpec("v", zone=zone), form="parquet"), "Instant")
    assert found == ([0] if zone else [])
    assert bad == [(n, reason) for n in range(2 if zone else 1, 6)]
    assert payloads[-4:] == ["5881580-07-11", "-5877641-06-24", "10183-09-21", "-0768-02-04"]


@pytest.mark.parametrize(("unit", "scale"), [("ms", 10**6), ("us", 10**3), ("ns", 1)])
@pytest.mark.parametrize("zoned", [True, False])
def test_timestamps_of_any_year(tmp_path: Path, unit: str, scale: int, zoned: bool) -> None:
    counts = [2**63 - 1, 5, -(2**63) + 1]
    path = _file(tmp_path / "a.parquet", pa.array(counts, pa.timestamp(unit, "UTC" if zoned else None)))
    found, bad, _ = _decoded(path, stream(ZONED, form="parquet"), "Instant")
    assert found == (counts if zoned and unit == "ns" else [5 * scale])
    assert [reason for _, reason in bad] == [FAR] * (3 - len(found))


def test_fields_that_no_column_takes_are_in_the_payload_whatever_they_are(tmp_path: Path) -> None:
    day = pa.array([INFINITE], pa.int32()).view(pa.date32())
    far = pa.array([2**62], pa.timestamp("us"))
    others = {
        "time": pa.array([86_399_999_999_999], pa.time64("ns")),
        "passed": pa.array([-1], pa.duration("ns")),
        "days": pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), day),
        "both": pa.StructArray.from_arrays([day, far], names=["d", "t"]),
        "half": pa.array(np.array([0.5], np.float16)),
        "exact": pa.array([Decimal("-0.10")], pa.decimal128(5, 2)),
        "bytes": pa.array([b"\xff"]),
        "zero": pa.array([-0.0]),
    }
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"v": pa.array([300]), **others}), path)
    _, rejects = decode(file_id(path), stream(form="parquet"), schema(v="byte"))
    (row,) = rejects.rows
    assert json.loads(row.payload or b"") == {
        "v": 300,
        "time": "23:59:59.999999999",
        "passed": "-1 ns",
        "days": ["5881580-07-11"],
        "both": {"d": "5881580-07-11", "t": "148108-07-06T14:00:27.387904"},
        "half": 0.5,
        "exact": "-0.10",
        "bytes": "/w==",
        "zero": -0.0,
    }


NUMBERS: list[tuple[str, pa.Array, list[Any]]] = [
    ("long", pa.array([2**64 - 1, 2**63 - 1, 2**63], pa.uint64()), [2**63 - 1]),
    ("byte", pa.array([255, 127, 128], pa.uint8()), [127]),
    ("int", pa.array([3.5, -0.0, 3e9, float("nan"), float("-inf")]), [0]),
    ("long", pa.array([9007199254740993.0, 2.0**63, -(2.0**63)]), [9007199254740992]),
    ("float", pa.array([1e39, -0.0, 1e-46, 0.1, 2.0**-149]), [-0.0, 2.0**-149]),
    ("double", pa.array([2**63, 2**64 - 1], pa.uint64()), [2.0**63]),
    ("double", pa.array([Decimal("1e30"), Decimal("-0.5")], pa.decimal256(50, 2)), [-0.5]),
    ("long", pa.array([Decimal(2**63 - 1), Decimal("0.01"), Decimal(10) ** 30], pa.decimal256(50, 2)), [2**63 - 1]),
    ("double", pa.array(np.array([-0.0, 65504.0], np.float16)), [-0.0, 65504.0]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "array", "expected"), NUMBERS, ids=range(len(NUMBERS)))
def test_numbers_at_the_ends_of_their_types(tmp_path: Path, kind: str, array: pa.Array, expected: list[Any]) -> None:
    found, bad, _ = _decoded(_file(tmp_path / "a.parquet", array), stream(form="parquet"), kind)
    assert [(v, np.signbit(v)) for v in found] == [(v, np.signbit(v)) for v in expected]
    assert len(bad) == len(array) - len(expected)


def _wide(path: Path, *, repeated: bool, mixed: bool = False) -> int:
    """A file of 20,000 texts of 20,000 bytes each: 400 MB of texts in a few MB."""
    chance = random.Random(3)
    pool = ["".join(chance.choices("abcdef", k=20)) * 1000 for _ in range(40 if repeated else 1000)]
    picked = [chance.choice(pool) for _ in range(20_000)]
    if mixed:
        picked += [f"order {n}" for n in range(300_000)]
    table = pa.table({"n": pa.array(range(len(picked)), pa.int32()), "v": pa.array(picked)})
    pq.write_table(table, path, compression="zstd")
    return len(picked)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [{"repeated": True}, {"repeated": False}, {"repeated": True, "mixed": True}])
def test_batches_of_wide_texts_are_bounded_by_bytes(tmp_path: Path, shape: dict[str, bool]) -> None:
    path = tmp_path / "a.parquet"
    count = _wide(path, **shape)
    assert path.stat().st_size < 8 << 20
    seen = 0
    for batch in planned_parquet(PlannedFile(Fs(), file_id(path)), utc96=False).batches(["n", "v"]):
        column = batch.rows.column("v")
        texts = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        assert texts.nbytes < 2 * BATCH_BYTES
        assert batch.rows.column("n").to_pylist() == list(range(seen, seen + batch.rows.num_rows))
        seen += batch.rows.num_rows
    assert seen == count


def test_wide_texts_next_to_short_ones_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    texts = [str(n) * (1000 if n < 2000 else 1) for n in range(60_000)]
    old = pa.array([n * 1_000_000_000 for n in range(60_000)], pa.timestamp("ns"))
    path = tmp_path / "a"
    table = pa.table({"n": range(60_000), "v": texts, "old": old})
    pq.write_table(table, path, use_dictionary=False, use_deprecated_int96_timestamps=True)
    file = planned_parquet(PlannedFile(Fs(), file_id(path)), utc96=True, batch_bytes=1 << 20)
    batches = [batch.rows for batch in file.batches(None)]
    assert max(rows.nbytes for rows in batches) < 2 << 20
    assert len(batches) < 30
    assert [text for rows in batches for text in rows.column("v").to_pylist()] == texts
    assert [n for rows in batches for n in rows.column("n").to_pylist()] == list(range(60_000))
    assert pa.concat_arrays([rows.column("old") for rows in batches]).view("int64") == old.view("int64")


def test_texts_of_one_width_are_decoded_a_few_at_a_time(tmp_path: Path) -> None:
    texts = [f"{n:08}" * 2000 for n in range(2000)]  # 32 MB
    path = tmp_path / "a"
    pq.write_table(pa.table({"v": texts}), path, use_dictionary=False, compression="zstd")
    file = planned_parquet(PlannedFile(Fs(), file_id(path)), utc96=False, batch_bytes=1 << 20)
    batches = [batch.rows for batch in file.batches(["v"])]
    assert sum(rows.num_rows for rows in batches) == 2000
    assert max(rows.nbytes for rows in batches) < 2 << 20


PEAK = """
import resource, sys
from pathlib import Path
from sparkhaven.store.io.fs import Fs
from tests.support.ingest.ingest_cases import file_id, schema, stream
from sparkhaven.ingest.bad_rows import Rejects
from tests.support.ingest.ingest_cases import decode_split
form, path = sys.argv[1], Path(sys.argv[2])
spec = stream(form=form)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
routed = decode_split(Fs(), file_id(path), spec, schema(n="int", v="String"), Rejects(spec.bad_rows))
rows = sum(len(r.batch) for r in routed)
print(rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def peak_mb(form: str, path: Path) -> tuple[int, int]:
    """Rows of a file, and by how many MiB a process grew while it decoded them."""
    done = subprocess.run([sys.executable, "-c", PEAK, form, str(path)], capture_output=True, text=True, check=True)
    rows, peak = map(int, done.stdout.split())
    return rows, peak


@pytest.mark.slow
def test_a_file_of_wide_texts_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    count = _wide(path, repeated=True)
    rows, peak = peak_mb("parquet", path)
    assert rows == count
    assert peak < 250


@pytest.mark.slow
@pytest.mark.parametrize(("form", "content"), [("json", b"{}\n" * 5_000_000), ("csv", b"n,v\n" + b",\n" * 5_000_000)])
def test_files_of_short_lines_take_little_memory(tmp_path: Path, form: str, content: bytes) -> None:
    path = tmp_path / f"a.{form}"
    path.write_bytes(content)
    rows, peak = peak_mb(form, path)
    assert rows == 5_000_000
    assert peak < 400
