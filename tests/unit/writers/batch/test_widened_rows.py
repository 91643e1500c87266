"""Rows for a location from before a widening: what the narrower type has is stored, the rest is rejected row by row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.spec import InternalRule, PartitionSpec, StreamSpec, ValueRule
from sparkhaven.jobs.operations.quarantine import Requeued, RequeueWriter
from sparkhaven.jobs.streams.decoding import Decoder
from sparkhaven.jobs.streams.stream_run import ErrorBudget
from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.quarantine.rejected_rows import REJECTED
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.store.schema.deployed.schema_changes import Consent
from sparkhaven.store.types.datatypes import BY_NAME, FLOAT_NULL
from sparkhaven.store.types.model import WIDER, Column, Kind, Storage, TableSchema, fitting, narrowed, widened
from sparkhaven.writers.append.append import LocationAppender
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import AddToQuarantine, BatchRequest, write_batch
from sparkhaven.writers.task import StreamTarget
from tests.support.streams.stream_kit import STREAM, TABLE, LocalExecutor, open_log, put_file
from tests.support.writers.quarantine_cases import DATE, PLENTY, pending, quarantine_at

FS = Fs()
XML = (
    '<Table namespace="Test" name="Event" storageType="NestedPartitionedOnDisk">'
    '<Column name="Date" dataType="String" columnType="Partitioning"/><Column name="Src" dataType="String"/>'
    '<Column name="N" dataType="long"/><Column name="I" dataType="{0}"/><Column name="F" dataType="{1}"/>'
    '<Column name="T" dataType="String"{2}/><Column name="Tags" dataType="StringSet"/></Table>'
)
NARROW, WIDE = ("short", "float", ""), ("int", "double", ' symbolTable="None"')
SPEC = StreamSpec(
    STREAM, str(TABLE), FilesOptions("/feed"), PartitionSpec(InternalRule("column", "Src"), ValueRule(fixed=DATE)),
    bad_rows=PLENTY,
)  # fmt: skip
REASON = "too-wide-for-the-location"
Row = dict[str, Any]


def deployed(root: Path, forms: tuple[str, str, str]) -> TableSchema:
    return deploy(FS, Layout(root), XML.format(*forms).encode(), consent=Consent(changes=True))


def row(source: str, number: int, whole: int | None, real: float | None, tags: tuple[str, ...] = ()) -> Row:
    return {"Src": source, "N": number, "I": whole, "F": real, "T": f"t{number}", "Tags": list(tags)}


def take(root: Path, log: StreamLog, schema: TableSchema, parts: list[list[Row]], shelf: AddToQuarantine) -> None:
    """One batch by the real decoder, a task for each part."""
    first = log.state.epoch * 10
    files = [[put_file(root / "feed", f"{first + n}", rows, first + n + 1)] for n, rows in enumerate(parts)]
    decoder = Decoder(FS, SPEC, schema)
    target = StreamTarget(Layout(root), TABLE, STREAM, schema, log.state.generation)
    request = BatchRequest(
        LocalExecutor(FS, target, files, decoder=decoder),
        query_id="query",
        batch_id=log.state.epoch,
        proposed=[split for group in files for split in group],
        check_budget=ErrorBudget(PLENTY),
        quarantine=shelf,
        decode=decoder,
    )
    write_batch(FS, log, target, WorkerCache(), request)


def stored(root: Path) -> dict[int, tuple[Any, ...]]:
    rows = open_table(root, str(TABLE)).to_arrow().to_pylist()
    return {row["N"]: (row["I"], row["F"], row["T"]) for row in rows}


BEGUN = [row("a", 1, 7, 0.1), row("a", 2, None, None, ("x",))]
FITTING = [
    row("a", 3, 32767, 0.25),
    row("a", 4, -32767, 1e38),
    row("a", 5, None, None),
    row("a", 6, 0, 0.1),
    row("b", 7, 1 << 20, 1e300),
]
TOO_WIDE = [
    row("a", 11, 32768, 0.0),
    row("a", 12, -32768, 0.0),
    row("a", 13, 0, 1e39),
    row("a", 14, 0, FLOAT_NULL),
    row("a", 15, 1 << 20, 1e300),
]
SHORT = float(np.float32(0.1))  # what a location of floats has of 0.1


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [1, 3])
def test_an_open_location_keeps_its_form_and_a_new_one_has_the_newest(tmp_path: Path, tasks: int) -> None:
    quarantine = quarantine_at(FS, tmp_path)
    with open_log(FS, tmp_path, schema=deployed(tmp_path, NARROW)) as log:
        take(tmp_path, log, log_schema(tmp_path), [BEGUN], quarantine.add)
        schema = deployed(tmp_path, WIDE)
        rows = [*FITTING, *TOO_WIDE, row("a", 20, 1 << 20, 0.0, tuple(f"y{n}" for n in range(64)))]
        take(tmp_path, log, schema, [rows[part::tasks] for part in range(tasks)], quarantine.add)
        left = pending(quarantine).to_pylist()
        assert {r["Reason"] for r in left} == {REASON}
        assert {json.loads(r["Payload"])["N"] for r in left} == {11, 12, 13, 14, 15, 20}
        assert {r["Column"] for r in left} == {"I", "F"}
        assert all("short" in r["Expected"] or "float" in r["Expected"] for r in left)
    expected = {r["N"]: (r["I"], r["F"], r["T"]) for r in [*BEGUN, *FITTING]}
    expected |= {1: (7, SHORT, "t1"), 6: (0, SHORT, "t6"), 4: (-32767, float(np.float32(1e38)), "t4")}
    assert stored(tmp_path) == expected
    places = [Layout(tmp_path).intraday_location(TABLE, LocationKey(source, DATE)) for source in "ab"]
    assert [(place / "T.sym").exists() for place in places] == [True, False]
    assert [(place / "I.dat").stat().st_size - 4096 for place in places] == [6 * 2, 1 * 4]
    assert verify(FS, Layout(tmp_path), TABLE, deep=True).errors == 0


def log_schema(root: Path) -> TableSchema:
    return deployed(root, NARROW)


@pytest.mark.slow
def test_a_requeue_says_of_each_row_whether_its_location_can_have_it(tmp_path: Path) -> None:
    quarantine = quarantine_at(FS, tmp_path)
    bad = [{**r, "N": f"x{r['N']}"} for r in (*FITTING[:1], FITTING[-1], *TOO_WIDE[:1])]  # one goes to a new location
    with open_log(FS, tmp_path, schema=deployed(tmp_path, NARROW)) as log:
        take(tmp_path, log, log_schema(tmp_path), [[*BEGUN, *bad]], quarantine.add)
        schema = deployed(tmp_path, WIDE)
        mended = [{**r, "Payload": r["Payload"].replace(b'"x', b"").replace(b'", "I', b', "I')}
                  for r in pending(quarantine).to_pylist()]  # fmt: skip
        target = StreamTarget(Layout(tmp_path), TABLE, STREAM, schema, log.state.generation)
        done, given = Requeued(), pa.Table.from_pylist(mended, REJECTED)
        RequeueWriter(FS, log, target, SPEC, quarantine, clock=lambda: 0.0).write(given, done)
        assert (done.sent, [str(r.refusal.reason) for r in done.refused]) == (2, [REASON])
    assert set(stored(tmp_path)) == {1, 2, 3, 7}


@pytest.mark.slow
def test_without_a_decoder_that_rejects_rows_an_append_is_refused(tmp_path: Path) -> None:
    with open_log(FS, tmp_path, schema=deployed(tmp_path, NARROW)) as log:
        take(tmp_path, log, log_schema(tmp_path), [BEGUN], quarantine_at(FS, tmp_path).add)
        target = StreamTarget(Layout(tmp_path), TABLE, STREAM, deployed(tmp_path, WIDE), log.state.generation)
        appender = LocationAppender(FS, target, LocationKey("a", DATE), WorkerCache(), may_write=lambda: None)
        batch = pa.RecordBatch.from_pydict({"N": pa.array([1]), "I": pa.array([32768], pa.int32())})
        with pytest.raises(SchemaMismatchError, match="cannot be stored") as caught:
            appender.append([batch])
        assert (caught.value.expected or "").startswith("a short")
    assert set(stored(tmp_path)) == {1, 2}


def form(name: str) -> Column:
    return Column("C", BY_NAME[name], Kind.NORMAL, Storage.FIXED, 1)


@given(
    st.sampled_from([(old, new) for old, wider in WIDER.items() for new in wider if old != "float"]),
    st.lists(
        st.none() | st.integers(-(2**63) + 1, 2**63 - 1) | st.sampled_from([2**7, 2**15, 2**31, -(2**7), -(2**15)])
    ),
)
def test_whole_numbers_fit_or_not_as_python_says(pair: tuple[str, str], values: list[int | None]) -> None:
    old, new = (form(name) for name in pair)
    size = 8 * new.width - 1
    values = [v for v in values if v is None or -(2**size) < v < 2**size]
    array, least = pa.array(values, new.type.arrow), 2 ** (8 * old.width - 1)
    fits = fitting(array, old)
    assert fits.tolist() == [v is None or -least < v < least for v in values]
    kept = array.filter(pa.array(fits))
    assert widened(narrowed(kept, old), new).equals(kept)


@given(st.lists(st.none() | st.floats(allow_nan=True, allow_infinity=True)))
def test_floats_round_but_never_overflow(values: list[float | None]) -> None:
    old, new = form("float"), form("double")
    array = pa.array(values, pa.float64())
    with np.errstate(over="ignore"):
        single = [None if v is None else float(np.float32(v)) for v in values]
    pairs = list(zip(values, single, strict=True))
    assert fitting(array, old).tolist() == [
        v is None or s is None or ((np.isfinite(s) or not np.isfinite(v)) and s != FLOAT_NULL) for v, s in pairs
    ]
    kept = array.filter(pa.array(fitting(array, old)))
    expected = pa.array([s for (_, s), fits in zip(pairs, fitting(array, old), strict=True) if fits], pa.float64())
    assert repr(widened(narrowed(kept, old), new).to_pylist()) == repr(expected.to_pylist())
