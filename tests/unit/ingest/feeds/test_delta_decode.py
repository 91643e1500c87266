"""Data files of a real Delta table to rows of ours: partition values, instants, bad rows by version, file and row."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.ingest.bad_rows import BadRow, Rejects, as_batch
from sparkhaven.ingest.feeds.base import reject_late, route
from sparkhaven.ingest.feeds.delta.feed import DeltaFeed
from sparkhaven.ingest.feeds.delta.planner import DeltaOptions, DeltaPlanner
from sparkhaven.ingest.feeds.delta.source import path_of, sample_table
from sparkhaven.ingest.requeued_rows import decode_requeued
from sparkhaven.ingest.spec import (
    BadRowBudget,
    ColumnSpec,
    Contract,
    InternalRule,
    Limit,
    PartitionSpec,
    StreamSpec,
    ValueRule,
)
from sparkhaven.store.epochs.state.log_values import TABLE, OffsetRange, packed
from sparkhaven.store.errors import CorruptFileError, FeedError, PositionGapError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage, TableSchema
from tests.support.ingest.delta.tables import TABLE_ID, actions_of, put_version, unpack
from tests.support.ingest.ingest_cases import schema

FS = Fs()
SCHEMA = TableSchema(
    "Test",
    "Copy",
    (
        Column("Date", data_type("String"), Kind.PARTITIONING, Storage.NONE, 0),
        Column("id", data_type("int"), Kind.NORMAL, Storage.FIXED, 1),
        Column("name", data_type("String"), Kind.NORMAL, Storage.SYMBOL, 2, "UTF_8"),
        Column("day", data_type("String"), Kind.NORMAL, Storage.SYMBOL, 3, "UTF_8"),
        Column("at", data_type("Instant"), Kind.NORMAL, Storage.FIXED, 4),
        Column("File", data_type("String"), Kind.NORMAL, Storage.SYMBOL, 5, "UTF_8"),
        Column("Row", data_type("long"), Kind.NORMAL, Storage.FIXED, 6),
    ),
)
AT = 1_795_255_200_000_000_000  # 2026-11-21 10:00 UTC
BIG = 2**40  # no int


def spec_of(table: Path) -> StreamSpec:
    return StreamSpec(
        "copy",
        "Test.Copy",
        DeltaOptions(str(table)),
        PartitionSpec(InternalRule("fixed", "0"), ValueRule(fixed="2026-11-21")),
        (ColumnSpec("File", meta="file"), ColumnSpec("Row", meta="line")),
        bad_rows=BadRowBudget(10, 1.0),
    )


def decoded(table: Path, start: int, stop: int, rejects: Rejects | None = None, **changes: Any) -> pa.Table:
    spec = replace(spec_of(table), **changes)
    split = OffsetRange(TABLE, 0, start, stop, TABLE_ID)
    rejects = rejects or Rejects(spec.bad_rows)
    routed = list(route(DeltaFeed(spec).decode(FS, split, SCHEMA, rejects, time.time), rejects))
    return pa.Table.from_batches([part.batch for part in routed])


def with_bad_rows(table: Path) -> tuple[Path, Path]:
    """Version 9 adds two files by an engine that writes no partition columns and no INT96: ids 100, too big, 101."""
    files = []
    actions: list[dict[str, Any]] = []
    for name, numbers in (("one", [100, BIG, 101]), ("two x", [BIG + 1])):
        files.append(table / f"{name}.parquet")
        at = pa.array([AT] * len(numbers)).view(pa.timestamp("ns", "UTC"))
        columns = {"id": numbers, "name": ["n"] * len(numbers), "at": at}
        pq.write_table(pa.table(columns), files[-1])
        path, size = f"{name}.parquet".replace(" ", "%20"), files[-1].stat().st_size
        add = {"path": path, "partitionValues": {"day": "2026-11-22"}, "size": size, "modificationTime": 1000}
        actions.append({"add": {**add, "dataChange": True}})
    put_version(table, 9, *actions)
    return files[0], files[1]


def test_rows_with_the_values_of_their_partition(tmp_path: Path) -> None:
    rows = decoded(unpack(tmp_path), packed(1), packed(4))
    assert rows["id"].to_pylist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert rows["name"].to_pylist() == [f"n{number}" for number in range(9)]
    assert rows["day"].to_pylist() == [None, "2026-11-21", "2026-11-21"] * 3
    assert rows["at"].cast(pa.int64()).to_pylist() == [AT] * 9  # written as INT96, which has no zone
    assert rows["Row"].to_pylist() == [1, 1, 2] * 3
    assert len(set(rows["File"].to_pylist())) == 6 and all(Path(file).is_file() for file in rows["File"].to_pylist())


def test_a_part_of_a_version_and_of_a_snapshot(tmp_path: Path) -> None:
    table = unpack(tmp_path, until=8)
    assert decoded(table, packed(2, 1), packed(3, 1))["id"].to_pylist() == [4, 5, 6]
    whole = decoded(table, packed(8, snapshot=True), packed(9))
    assert sorted(whole["id"].to_pylist()) == list(range(21))
    plan = DeltaPlanner(FS, DeltaOptions(str(table)), None)
    first = plan.plan(Limit(files=1))
    assert first is not None
    parts = [decoded(table, first.start, first.stop), decoded(table, first.stop, packed(9))]
    assert pa.concat_tables(parts) == whole


def test_bad_rows_are_named_by_version_file_and_row_and_can_be_sent_again(tmp_path: Path) -> None:
    table = unpack(tmp_path, until=8)
    one, two = with_bad_rows(table)
    rejects = Rejects(BadRowBudget(10, 1.0))
    rows = decoded(table, packed(8), packed(10), rejects)
    assert rows["id"].to_pylist() == [100, 101] and rows["day"].to_pylist() == ["2026-11-22"] * 2
    found = [(row.file, row.line, row.column, row.time_ns) for row in rejects.rows]
    assert [row[:3] for row in found] == [(f"version 9: {one}", 2, "id"), (f"version 9: {two}", 1, "id")]
    assert f"version 9: {one} row 2, column id" in str(rejects.rows[0])
    payload = json.loads(rejects.rows[0].payload or b"")
    assert (payload["id"], payload["day"], payload["at"][:19]) == (BIG, "2026-11-22", "2026-11-21T10:00:00")
    assert rejects.others["data_files"] == 2
    mended = [replace(row, payload=(row.payload or b"").replace(str(BIG).encode(), b"7")) for row in rejects.rows[:1]]
    (again,) = decode_requeued(
        pa.Table.from_batches([as_batch(mended)]), spec_of(table), SCHEMA, Rejects(BadRowBudget())
    )
    row = again.batch.to_pylist()[0]
    assert (row["id"], row["day"], row["File"], row["Row"]) == (7, "2026-11-22", str(one), 2)
    assert path_of(rejects.rows[1].file) == str(two)


def test_a_file_from_before_a_column_was_added_has_nulls_and_an_undeclared_column_is_refused(tmp_path: Path) -> None:
    table = unpack(tmp_path, until=4)
    pq.write_table(pa.table({"id": [100], "at": pa.array([AT]).view(pa.timestamp("ns", "UTC"))}), table / "x.parquet")
    size = (table / "x.parquet").stat().st_size
    add = {"path": "x.parquet", "size": size, "partitionValues": {"day": "2026-11-22"}, "modificationTime": 0}
    put_version(table, 5, {"add": {**add, "dataChange": True}})
    assert decoded(table, packed(5), packed(6))["name"].to_pylist() == [None]
    fields = [{"name": name} for name in ("id", "at", "day", "Name")]
    (made,) = (action["metaData"] for action in actions_of(table, 0) if "metaData" in action)
    put_version(table, 6, {"metaData": {**made, "schemaString": json.dumps({"type": "struct", "fields": fields})}})
    with pytest.raises(FeedError, match="lacks columns that the table stores") as caught:
        decoded(table, packed(5), packed(6))
    assert (caught.value.expected, caught.value.where) == ("'name'", str(table / "x.parquet"))
    feed = DeltaOptions(str(table), missing_columns="null")
    assert decoded(table, packed(5), packed(6), feed=feed)["name"].to_pylist() == [None]


@pytest.mark.parametrize("contract", ["evolve", "discard-row", "freeze"])
def test_columns_that_delta_hides_are_no_fields(tmp_path: Path, contract: Contract) -> None:
    """Row tracking and change data feeds write columns into data files that the table does not have."""
    table = unpack(tmp_path, until=4)
    rows = {"id": [100, BIG], "name": ["n", "m"], "at": pa.array([AT, AT]).view(pa.timestamp("ns", "UTC"))}
    hidden = {"_row-id-col-1fcd0677": [7, 8], "_change_type": ["insert", None], "__is_cdc": ["false", "false"]}
    pq.write_table(pa.table(rows | hidden), table / "x.parquet")
    size = (table / "x.parquet").stat().st_size
    add = {"path": "x.parquet", "size": size, "partitionValues": {"day": "2026-11-22"}, "modificationTime": 0}
    put_version(table, 5, {"add": {**add, "dataChange": True}})
    rejects = Rejects(BadRowBudget(10, 1.0), frozen=contract == "freeze")
    taken = decoded(table, packed(5), packed(6), rejects, contract=contract)
    assert taken["id"].to_pylist() == [100] and not rejects.ignored
    assert [(row.line, row.column) for row in rejects.rows] == [(2, "id")]
    assert sorted(json.loads(rejects.rows[0].payload or b"")) == ["at", "day", "id", "name"]
    assert sample_table(FS, DeltaOptions(str(table)), 100).fields.keys() == {"id", "name", "day", "at"}


def test_rows_whose_timestamp_is_int96_can_be_sent_again(tmp_path: Path) -> None:
    table = unpack(tmp_path)
    key = LocationKey("0", "2026-11-21")
    rejects = Rejects(BadRowBudget(100, 1.0))
    spec = spec_of(table)
    split = OffsetRange(TABLE, 0, packed(1), packed(2), TABLE_ID)
    decode = partial(DeltaFeed(spec).decode, FS, split, SCHEMA, clock=time.time)
    assert reject_late(decode, frozenset({key}), rejects) == 3
    rows = pa.Table.from_batches([as_batch(rejects.rows)])
    parts = [part.batch for part in decode_requeued(rows, spec, SCHEMA, Rejects(BadRowBudget()))]
    assert pa.Table.from_batches(parts) == decoded(table, packed(1), packed(2))


def test_a_partition_value_of_the_wrong_type_is_a_bad_row(tmp_path: Path) -> None:
    table = unpack(tmp_path, until=8)
    with_bad_rows(table)
    actions = actions_of(table, 9)
    actions[0]["add"]["partitionValues"] = {"day": "2026-11-22", "id": "seven"}
    put_version(table, 9, actions[0])
    rejects = Rejects(BadRowBudget(10, 1.0))
    split = OffsetRange(TABLE, 0, packed(9), packed(10), TABLE_ID)
    assert list(route(DeltaFeed(spec_of(table)).decode(FS, split, SCHEMA, rejects, time.time), rejects)) == []
    assert [(row.line, row.column, row.value) for row in rejects.rows] == [(n, "id", "seven") for n in (1, 2, 3)]


def test_files_that_are_gone_or_other_ones_are_reported(tmp_path: Path) -> None:
    table = unpack(tmp_path, until=8)
    one, two = with_bad_rows(table)
    two.write_bytes(two.read_bytes() + b"x")
    with pytest.raises(CorruptFileError, match="damaged"):
        decoded(table, packed(9), packed(10))
    one.unlink()
    with pytest.raises(PositionGapError, match="removed before it was read") as caught:
        decoded(table, packed(9), packed(10))
    assert (caught.value.where, caught.value.expected) == (str(one), "the file that version 9 has")


def _local_partitions(place: Path, writer: str) -> Path:
    """A table partitioned by a timestamp, of which the log has no zone, with one data file of a writer."""
    table = place / "local"
    (table / "_delta_log").mkdir(parents=True)
    path = table / "a.parquet"
    columns = pa.table({"id": pa.array([1], pa.int32()), "name": ["n"], "day": ["d"]})
    pq.write_table(columns, path)
    data = path.read_bytes()  # the name of the writer stands in the footer
    arrow = pq.ParquetFile(path).metadata.created_by.encode()
    assert data.count(arrow) == 1
    path.write_bytes(data.replace(arrow, writer.ljust(len(arrow)).encode()))
    fields = [{"name": "at", "type": "timestamp"}, {"name": "id", "type": "integer"}]
    text = json.dumps({"type": "struct", "fields": fields})
    values = {"at": "2026-11-21 10:00:00.000000"}
    add = {"path": path.name, "partitionValues": values, "size": path.stat().st_size, "modificationTime": 1}
    metadata = {"id": TABLE_ID, "schemaString": text, "configuration": {}}
    put_version(table, 0, {"protocol": {"minReaderVersion": 1}}, {"metaData": metadata}, {"add": add})
    return table


@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_a_partition_timestamp_of_delta_rs_is_in_utc(tmp_path: Path, zone: str | None) -> None:
    table = _local_partitions(tmp_path, "delta-rs version py-1.6.6")
    columns = (*spec_of(table).columns, ColumnSpec("at", zone=zone))
    assert decoded(table, packed(0), packed(1), columns=columns)["at"].cast(pa.int64()).to_pylist() == [AT]


def test_a_partition_timestamp_of_spark_asks_for_the_zone_of_its_session(tmp_path: Path) -> None:
    table = _local_partitions(tmp_path, "parquet-mr version 1.17.1")
    rejects = Rejects(BadRowBudget(10, 1.0))
    split = OffsetRange(TABLE, 0, packed(0), packed(1), TABLE_ID)
    assert not list(route(DeltaFeed(spec_of(table)).decode(FS, split, SCHEMA, rejects, time.time), rejects))
    (row,) = rejects.rows
    assert (row.column, row.explanation) == ("at", "has no time zone")
    assert row.refusal.expected == "a zone for column at: that of the Spark session that wrote the table"
    columns = (*spec_of(table).columns, ColumnSpec("at", zone="America/New_York"))
    found = decoded(table, packed(0), packed(1), columns=columns)["at"].cast(pa.int64()).to_pylist()
    assert found == [AT + 5 * 3600 * 10**9]


@pytest.mark.parametrize(
    ("declared", "text", "kind", "stored"),
    [
        ("double", "0.1", "float", None),
        ("double", "0.5", "float", 0.5),
        ("double", "0.1", "double", 0.1),
        ("double", "1e300", "float", None),
        ("double", "NaN", "float", math.nan),
        ("float", "0.1", "float", float(np.float32(0.1))),
        ("float", "0.1", "double", float(np.float32(0.1))),
        ("long", "9007199254740993", "double", None),
        ("long", "9007199254740992", "double", 2.0**53),
        ("integer", "16777217", "float", None),
        ("decimal(3,1)", "0.1", "double", None),
        ("decimal(3,1)", "0.5", "float", 0.5),
        ("string", "0.1", "float", float(np.float32(0.1))),
        ("double", "x", "float", None),
        ("double", "0.5", "String", "0.5"),
    ],
)
def test_partition_numbers_are_exact_as_those_of_data_files(
    tmp_path: Path, declared: str, text: str, kind: str, stored: float | str | None
) -> None:
    fields = [{"name": "x", "type": declared}, {"name": "id", "type": "integer"}]
    metadata = {"id": TABLE_ID, "schemaString": json.dumps({"fields": fields}), "configuration": {}}
    (tmp_path / "_delta_log").mkdir()
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), path)
    add = {"path": path.name, "partitionValues": {"x": text}, "size": path.stat().st_size, "modificationTime": 1}
    put_version(tmp_path, 0, {"protocol": {"minReaderVersion": 1}}, {"metaData": metadata}, {"add": add})
    table = schema(id="int", x=kind)
    split = OffsetRange(TABLE, 0, packed(0), packed(1), TABLE_ID)
    spec = replace(spec_of(tmp_path), columns=())
    rejects = Rejects(BadRowBudget(10, 1.0))
    values = [
        value
        for routed in route(DeltaFeed(spec).decode(FS, split, table, rejects, time.time), rejects)
        for value in routed.batch.column(routed.batch.schema.get_field_index("x")).to_pylist()
    ]
    assert repr(values) == repr([] if stored is None else [stored])
    assert [row.column for row in rejects.rows] == ["x"] * (stored is None)
    if stored is None and text != "x":
        lossy = replace(spec, columns=(ColumnSpec("x", lossy=True),))
        nearest = Rejects(BadRowBudget(10, 1.0))
        (routed,) = route(DeltaFeed(lossy).decode(FS, split, table, nearest, time.time), nearest)
        assert not nearest.rows and routed.batch.num_rows == 1


def written_table(place: Path, fields: dict[str, str], *files: tuple[pa.Table, dict[str, str], int | None]) -> Path:
    """A table of one version: data files with the values of their partition, and the rows that statistics say."""
    (place / "_delta_log").mkdir(parents=True)
    schema = json.dumps({"fields": [{"name": name, "type": kind} for name, kind in fields.items()]})
    actions: list[dict[str, Any]] = [{"protocol": {"minReaderVersion": 1}}]
    actions.append({"metaData": {"id": TABLE_ID, "schemaString": schema, "configuration": {}}})
    for number, (rows, values, counted) in enumerate(files):
        path = place / f"{number}.parquet"
        pq.write_table(rows, path)
        stats = json.dumps({"minValues": {"numRecords": 1}, "numRecords": counted})
        add = {"path": path.name, "partitionValues": values, "size": path.stat().st_size, "modificationTime": 1}
        actions.append({"add": {**add, "dataChange": True, **({} if counted is None else {"stats": stats})}})
    put_version(place, 0, *actions)
    return place


def rows_of(table: Path, **columns: str) -> tuple[list[dict[str, Any]], Rejects]:
    """What a table with these columns takes of version 0."""
    spec = replace(spec_of(table), columns=(ColumnSpec("Row", meta="line"),) if "Row" in columns else ())
    rejects, split = Rejects(spec.bad_rows), OffsetRange(TABLE, 0, packed(0), packed(1), TABLE_ID)
    blocks = DeltaFeed(spec).decode(FS, split, schema(**columns), rejects, time.time)
    found = [row for routed in route(blocks, rejects) for row in routed.batch.to_pylist()]
    rejects.source.require(len(found), rejects.bad, table)
    return found, rejects


IDS = pa.table({"Id": pa.array([1, 2, 3], pa.int64())})


@pytest.mark.parametrize("counted", [3, None])
def test_a_file_that_has_no_stored_column_has_its_rows(tmp_path: Path, counted: int | None) -> None:
    fields = {"Id": "long", "P": "string", "New": "long"}
    table = written_table(tmp_path, fields, (IDS, {"P": "a"}, counted), (IDS.slice(1), {"P": "b"}, None))
    assert rows_of(table, P="String")[0] == [{"P": "a"}] * 3 + [{"P": "b"}] * 2
    assert rows_of(table, New="long")[0] == [{"New": None}] * 5  # the files are older than the column
    assert rows_of(table, Row="long")[0] == [{"Row": number} for number in (1, 2, 3, 1, 2)]
    assert rows_of(table, P="String", Id="long")[0][:2] == [{"P": "a", "Id": 1}, {"P": "a", "Id": 2}]


def test_a_file_with_another_number_of_rows_than_the_log_says_is_refused(tmp_path: Path) -> None:
    table = written_table(tmp_path, {"Id": "long"}, (IDS, {}, 4))
    with pytest.raises(FeedError, match="another number of rows than its table says") as other:
        rows_of(table, Id="long")
    assert (other.value.expected, other.value.where) == ("4 rows", str(table / "0.parquet"))


def test_columns_are_found_in_any_case(tmp_path: Path) -> None:
    """A data file, and the partition values of the log, may name a column in other case than the table does."""
    data = pa.table({"ID": pa.array([1, 2**40], pa.int64()), "n": pa.array([7, 8], pa.int64())})
    fields = {"Id": "long", "N": "long", "P": "string"}
    table = written_table(tmp_path, fields, (data, {"p": "a"}, None))
    assert rows_of(table, Id="long")[0] == [{"Id": 1}, {"Id": 2**40}]
    assert rows_of(table, Id="long", N="long", P="String")[0][0] == {"Id": 1, "N": 7, "P": "a"}
    found, rejects = rows_of(table, Id="int", N="long")
    assert (found, [json.loads(row.payload or b"") for row in rejects.rows]) == (
        [{"Id": 1, "N": 7}],
        [{"Id": 2**40, "N": 8, "P": "a"}],
    )
    with pytest.raises(FeedError, match="has no field that a column takes") as other:  # the table has no such name
        rows_of(table, iD="long")
    assert "'Id'" in str(other.value.found) and "Id" in str(other.value.hint)


def test_a_file_from_before_a_table_was_partitioned_has_the_column_itself(tmp_path: Path) -> None:
    before = pa.table({"Id": pa.array([1, 2], pa.int64()), "P": ["x", None]})
    fields = {"Id": "long", "P": "string"}
    table = written_table(tmp_path, fields, (before, {}, None), (IDS.slice(2), {"P": "y"}, None))
    actions = actions_of(table, 0)
    for action in actions:
        if "metaData" in action:
            action["metaData"]["partitionColumns"] = ["P"]
    put_version(table, 0, *actions)
    assert rows_of(table, Id="long", P="String")[0] == [{"Id": 1, "P": "x"}, {"Id": 2, "P": None}, {"Id": 3, "P": "y"}]


def test_two_columns_that_differ_in_case_only_are_refused(tmp_path: Path) -> None:
    both = pa.table({"Id": pa.array([1], pa.int64()), "ID": pa.array([2], pa.int64())})
    table = written_table(tmp_path, {"Id": "long"}, (both, {}, None))
    with pytest.raises(FeedError, match="has a column twice"):
        rows_of(table, Id="long")


@pytest.mark.parametrize("text", ["abcd", "\x01\x02", "XNYS", "é"])
def test_a_partition_value_of_bytes_is_its_text_in_utf8(tmp_path: Path, text: str) -> None:
    table = written_table(tmp_path, {"Id": "long", "B": "binary"}, (IDS.slice(0, 1), {"B": text}, None))
    columns = {"Id": "long", "B": "byte[] SimpleByteArrayCodec"}
    assert rows_of(table, **columns)[0] == [{"Id": 1, "B": text.encode()}]
    assert rows_of(table, Id="long", B="String")[0] == [{"Id": 1, "B": text}]
    _, rejects = rows_of(table, Id="byte", B=columns["B"])
    assert not rejects.bad


def rejected(table: Path, spec: StreamSpec, **columns: str) -> BadRow:
    """The one row of version 0 that a table with these columns rejects."""
    rejects, split = Rejects(spec.bad_rows), OffsetRange(TABLE, 0, packed(0), packed(1), TABLE_ID)
    list(route(DeltaFeed(spec).decode(FS, split, schema(**columns), rejects, time.time), rejects))
    (bad,) = rejects.rows
    return bad


def requeued(bad: BadRow, spec: StreamSpec, mended: dict[str, int], **columns: str) -> tuple[list[Any], list[str]]:
    """What requeue takes of a row with other values, and why it rejects it again."""
    payload = json.dumps(json.loads(bad.payload or b"") | mended).encode()
    rejects, rows = Rejects(spec.bad_rows), pa.Table.from_batches([as_batch([replace(bad, payload=payload)])])
    found = decode_requeued(rows, spec, schema(**columns), rejects)
    return [row for part in found for row in part.batch.to_pylist()], [str(row.refusal.reason) for row in rejects.rows]


def test_requeue_holds_rows_against_the_contract(tmp_path: Path) -> None:
    """A row without a field that its table does not declare either is refused again, and not null."""
    table = written_table(tmp_path, {"Id": "long"}, (IDS.slice(0, 1), {}, None))
    feed, columns = DeltaOptions(str(table), missing_columns="null"), {"Id": "long", "New": "long"}
    spec = replace(spec_of(table), columns=(), contract="discard-row", feed=feed)
    bad = rejected(table, spec, **columns)
    assert (bad.refusal.reason, json.loads(bad.payload or b"")) == ("absent-field", {"Id": 1})
    assert requeued(bad, spec, {}, **columns) == ([], ["absent-field"])
    assert requeued(bad, spec, {"New": 7}, **columns) == ([{"Id": 1, "New": 7}], [])
    assert requeued(bad, replace(spec, contract="evolve"), {}, **columns) == ([{"Id": 1, "New": None}], [])


def test_requeue_takes_null_for_a_column_that_only_the_table_declares(tmp_path: Path) -> None:
    rows = pa.table({"Id": pa.array([2**40], pa.int64())})
    table = written_table(tmp_path, {"Id": "long", "New": "long", "Unused": "long"}, (rows, {}, None))
    spec, columns = replace(spec_of(table), columns=(), contract="discard-row"), {"Id": "int", "New": "long"}
    bad = rejected(table, spec, **columns)
    assert json.loads(bad.payload or b"") == {"Id": 2**40, "New": None}
    assert requeued(bad, spec, {"Id": 5}, **columns) == ([{"Id": 5, "New": None}], [])


def test_a_rejected_row_keeps_the_bytes_of_its_partition(tmp_path: Path) -> None:
    rows = pa.table({"Id": pa.array([2**40], pa.int64())})
    table = written_table(tmp_path, {"Id": "long", "B": "binary"}, (rows, {"B": "abcd"}, None))
    columns = {"Id": "int", "B": "byte[] SimpleByteArrayCodec"}
    _, rejects = rows_of(table, **columns)
    bad = replace(rejects.rows[0], payload=(rejects.rows[0].payload or b"").replace(b"1099511627776", b"5"))
    again = Rejects(BadRowBudget(10, 1.0))
    spec = replace(spec_of(table), columns=())
    (routed,) = decode_requeued(pa.Table.from_batches([as_batch([bad])]), spec, schema(**columns), again)
    assert routed.batch.to_pylist() == [{"Id": 5, "B": b"abcd"}]
