"""A text that would be the 65th of a set's column in a location: its row is rejected, once, and no other."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.spec import InternalRule, PartitionSpec, StreamSpec, ValueRule
from sparkhaven.jobs.operations.quarantine import Requeued, RequeueWriter
from sparkhaven.jobs.streams.decoding import Decoder
from sparkhaven.jobs.streams.stream_run import ErrorBudget
from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.digest import add, digest_array, value_hashes
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import FeedError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.quarantine.rejected_rows import REJECTED
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.store.schema.document.schema_file import parse_schema
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.append.append import rows_without_room
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import AddToQuarantine, BatchOutcome, BatchRequest, write_batch
from sparkhaven.writers.batch.rejects import LeftOut
from sparkhaven.writers.task import SplitNotes, StreamTarget
from tests.support.streams.stream_kit import STREAM, TABLE, LocalExecutor, open_log, put_file, scratch_left
from tests.support.writers.quarantine_cases import DATE, PLENTY, Shelf, pending, quarantine_at

FS = Fs()
SCHEMA_XML = (
    b'<Table namespace="Test" name="Event" storageType="NestedPartitionedOnDisk">'
    b'<Partitions keyFormula="${autobalance_single}"/>'
    b'<Column name="Date" dataType="String" columnType="Partitioning"/><Column name="Src" dataType="String"/>'
    b'<Column name="N" dataType="long"/><Column name="Tags" dataType="StringSet"/>'
    b'<Column name="Kinds" dataType="StringSet"/></Table>'
)
SPEC = StreamSpec(
    STREAM, str(TABLE), FilesOptions("/feed"), PartitionSpec(InternalRule("column", "Src"), ValueRule(fixed=DATE)),
    bad_rows=PLENTY,
)  # fmt: skip
REASON = "no-room-in-the-sets-of-the-location"
Row = dict[str, Any]


def rows_of(numbers: Sequence[int], chance: random.Random, texts: int = 90) -> list[Row]:
    """Rows of two locations with sets of a few of many texts, null now and then."""
    rows = []
    for number in numbers:
        sets = {
            name: [f"{name}{chance.randrange(texts)}" for _ in range(chance.randrange(4))] for name in ("Tags", "Kinds")
        }
        rows.append({"Src": "ab"[number % 2], "N": number} | (sets if chance.random() < 0.9 else {"Tags": None}))
    return rows


def take(
    fs: Fs,
    root: Path,
    log: StreamLog,
    groups: Sequence[Sequence[FileId]],
    shelf: AddToQuarantine,
    batch: int,
    **settings: Any,
) -> BatchOutcome:
    """One batch by the real decoder."""
    schema = deployed(root)
    target = StreamTarget(Layout(root), TABLE, STREAM, schema, log.state.generation)
    decoder = settings.pop("decoder", Decoder)(fs, SPEC, schema)
    request = BatchRequest(
        LocalExecutor(fs, target, groups, decoder=decoder, **settings),
        query_id="query",
        batch_id=batch,
        proposed=[split for group in groups for split in group],
        check_budget=ErrorBudget(PLENTY),
        quarantine=shelf,
        decode=decoder,
    )
    return write_batch(fs, log, target, WorkerCache(), request)


def deployed(root: Path) -> TableSchema:
    """The schema of the table, which this deploys if it is not."""
    return deploy(FS, Layout(root), SCHEMA_XML)


def stored(root: Path) -> dict[int, Row]:
    """The rows of the table, by number."""
    table = open_table(root, str(TABLE)).to_arrow(["N", "Tags", "Kinds"])
    return {row["N"]: row for row in table.to_pylist()}


def rejected(shelf: Shelf) -> set[int]:
    """The numbers of the rows in quarantine, all of them for want of room."""
    assert {row["Reason"] for row in shelf.rows.values()} <= {REASON}
    return {json.loads(row["Payload"])["N"] for row in shelf.rows.values()}


def check(root: Path, shelf: Shelf, rows: Sequence[Row]) -> set[int]:
    """Each row is in one place, its sets as they came, and no location has too many texts; those rejected."""
    kept, left = stored(root), rejected(shelf)
    assert sorted([*kept, *left]) == sorted(row["N"] for row in rows)
    for row in rows:
        for name in ("Tags", "Kinds"):
            if row["N"] in kept:
                assert kept[row["N"]][name] == sorted(set(row.get(name) or ()))
    for source in "ab":
        for name in ("Tags", "Kinds"):
            mine = [kept[row["N"]][name] for row in rows if row["Src"] == source and row["N"] in kept]
            assert len(set().union(*mine)) <= 64
    assert verify(FS, Layout(root), TABLE, deep=True).errors == 0
    return left


def plainly(rows: Sequence[Row]) -> set[int]:
    """The rows without room, one after the other."""
    held: dict[tuple[str, str], set[str]] = {}
    left = set()
    for row in rows:
        grown = {
            (row["Src"], name): held.get((row["Src"], name), set()) | set(row.get(name) or ())
            for name in ("Tags", "Kinds")
        }
        if any(len(texts) > 64 for texts in grown.values()):
            left.add(row["N"])
        else:
            held |= grown
    return left


@pytest.mark.parametrize("seed", range(3))
def test_rows_are_left_out_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    rows = [{**row, "Src": "a"} for row in rows_of(range(400), chance)]
    kinds = {"N": pa.int64(), "Tags": pa.list_(pa.string()), "Kinds": pa.list_(pa.string())}
    batches = [
        pa.RecordBatch.from_pydict(
            {name: pa.array([row.get(name) for row in rows[start : start + 70]], kind) for name, kind in kinds.items()}
        )
        for start in range(0, 400, 70)
    ]
    left = rows_without_room([batch.slice(0) for batch in batches], {"Tags": {}, "Kinds": {}})
    assert set(left) == plainly(rows) != set()


def test_digests_of_rows_that_go_to_many_locations() -> None:
    column = next(column for column in parse_schema(SCHEMA_XML, "s").schema.stored if column.name == "Tags")
    array = pa.array([[f"t{n}", f"t{n // 2}"] if n % 7 else None for n in range(300)], pa.list_(pa.string()))
    alone = [array.slice(row, 1) for row in range(len(array))]
    assert digest_array(column, array) == add(*(digest_array(column, one) for one in alone))
    assert value_hashes(column, array).tolist() == [value_hashes(column, one)[0] for one in alone]


@pytest.mark.slow
@pytest.mark.parametrize("buffered", [1, 1 << 20])
def test_one_task_rejects_what_a_plain_model_does(tmp_path: Path, buffered: int) -> None:
    rows = rows_of(range(300), random.Random(1))
    files = [put_file(tmp_path / "feed", str(n), rows[n * 100 : n * 100 + 100], n + 1) for n in range(3)]
    shelf = Shelf()
    with open_log(FS, tmp_path, schema=deployed(tmp_path)) as log:
        for batch, file in enumerate(files):
            take(FS, tmp_path, log, [[file]], shelf, batch, max_buffered=buffered)
        assert check(tmp_path, shelf, rows) == plainly(rows) != set()
        assert scratch_left(tmp_path) == []
        before = stored(tmp_path)
        assert take(FS, tmp_path, log, [[files[0]]], shelf, 9).replayed == 1
        assert stored(tmp_path) == before
    row = next(iter(shelf.rows.values()))
    assert (row["Column"] in ("Tags", "Kinds"), row["Expected"][:29]) == (True, "at most 64 different texts in")


@pytest.mark.slow
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("attempts", [1, 2])
def test_tasks_that_meet_at_locations_reject_each_row_once(
    tmp_path: Path, order: tuple[int, ...], attempts: int
) -> None:
    rows = rows_of(range(450), random.Random(2))
    groups = [
        [put_file(tmp_path / "feed", f"{n}{part}", rows[start : start + 75], n + part * 3 + 1) for part in range(2)
         for start in [(n * 2 + part) * 75]]
        for n in range(3)
    ]  # fmt: skip
    shelf = Shelf()
    with open_log(FS, tmp_path, schema=deployed(tmp_path)) as log:
        outcome = take(FS, tmp_path, log, groups, shelf, 0, order=order, attempts=attempts, max_buffered=2000)
        left = check(tmp_path, shelf, rows)
        assert (outcome.rows, outcome.rejected) == (450 - len(left), len(left))
        assert left


class Dies(Fs):
    """Raises at a step of the protocol, once."""

    def __init__(self, place: str) -> None:
        self.place: str | None = place

    def step(self, name: str) -> None:
        if name == self.place:
            self.place = None
            raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize(
    "place", ["append:after", "collect:after", "quarantine:after", "commit-record:before", "commit-record:after"]
)
def test_after_a_crash_each_row_is_in_one_place(tmp_path: Path, place: str) -> None:
    rows = rows_of(range(200), random.Random(3))
    groups = [[put_file(tmp_path / "feed", str(n), rows[n * 100 : n * 100 + 100], n + 1)] for n in range(2)]
    shelf, fs = Shelf(), Dies(place)
    with pytest.raises(KeyboardInterrupt), open_log(fs, tmp_path, schema=deployed(tmp_path)) as log:
        take(fs, tmp_path, log, groups, shelf, 0)
    with open_log(FS, tmp_path, schema=deployed(tmp_path)) as log:
        take(FS, tmp_path, log, groups, shelf, 0)
        assert check(tmp_path, shelf, rows)


@pytest.mark.slow
def test_a_source_that_gives_other_rows_the_second_time_is_refused(tmp_path: Path) -> None:
    class Forgetful(Decoder):
        def reject_rows(self, split: Any, left: LeftOut, notes: SplitNotes) -> int:
            key, rows = next(iter(left.items()))
            return super().reject_rows(split, {LocationKey(key.internal, key.value): dict([*rows.items()][1:])}, notes)

    rows = rows_of(range(200), random.Random(4))
    with open_log(FS, tmp_path, schema=deployed(tmp_path)) as log, pytest.raises(FeedError, match="other rows"):
        take(FS, tmp_path, log, [[put_file(tmp_path / "feed", "0", rows, 1)]], Shelf(), 0, decoder=Forgetful)


@pytest.mark.slow
def test_a_requeue_sends_what_has_room_and_says_why_the_others_stay(tmp_path: Path) -> None:
    """The location has 63 texts; of four rows in quarantine one wants a second new one."""
    full = {"Src": "a", "N": 0, "Tags": [f"t{n}" for n in range(63)], "Kinds": []}
    sets = {1: ["new"], 2: ["other"], 3: ["t1", "new"], 4: ["t2"]}
    rows = [{"Src": "a", "N": f"x{number}", "Tags": tags, "Kinds": []} for number, tags in sets.items()]
    quarantine = quarantine_at(FS, tmp_path)
    with open_log(FS, tmp_path, schema=deployed(tmp_path)) as log:
        take(FS, tmp_path, log, [[put_file(tmp_path / "feed", "0", [full, *rows], 1)]], quarantine.add, 0)
        stays = pending(quarantine).to_pylist()
        mended = [{**row, "Payload": row["Payload"].replace(b'"x', b"").replace(b'", "T', b', "T')} for row in stays]
        given = pa.Table.from_pylist(mended, REJECTED)
        target = StreamTarget(Layout(tmp_path), TABLE, STREAM, deployed(tmp_path), log.state.generation)
        done = Requeued()
        RequeueWriter(FS, log, target, SPEC, quarantine, clock=lambda: 0.0).write(given, done)
        assert (done.sent, [str(row.refusal.reason) for row in done.refused]) == (3, [REASON])
        assert [row["Payload"] for row in pending(quarantine).to_pylist()] == [stays[1]["Payload"]]
    assert {number: row["Tags"] for number, row in stored(tmp_path).items() if number} == {
        number: sorted(tags) for number, tags in sets.items() if number != 2
    }
    assert verify(FS, Layout(tmp_path), TABLE, deep=True).errors == 0
