"""The ledger of a quarantine: which epochs are dead, whatever the log went through."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.readers.checks.stream_files import check_beside
from sparkhaven.store.epochs.files.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from sparkhaven.store.epochs.state.replay import MAX_PAIRS, StreamState
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.quarantine.ledger import Ledger, encode_ledger, read_ledger, write_ledger
from sparkhaven.writers.quarantine.changes import NEVER, follow, rebuilt_ledger
from tests.support.places import GOLDEN
from tests.support.streams.stream_kit import STREAM, TABLE, open_log, put_file, record
from tests.support.writers.quarantine_cases import bad, marks, quarantine_at, rejected_at, restart, take

FS = Fs()
LEDGER = Ledger("/a place", "/streams/s.toml", 7, 3, ((1, 2), (4, 9)))


@pytest.mark.parametrize(
    ("ledger", "epoch", "rollbacks", "dead", "newest"),
    [
        (Ledger(newest=3), 3, [], (), 3),
        (Ledger(newest=2), 5, [], (), 2),
        (Ledger(newest=4), 3, [], ((3, 4),), 3),  # in quarantine, not committed
        (Ledger(newest=3), 4, [(4, 1)], ((1, 4),), 3),
        (Ledger(newest=3), 6, [(6, 3), (4, 1)], ((1, 4), (3, 6)), 3),
        (Ledger(newest=3, seen=4), 6, [(4, 1), (6, 3)], ((3, 6),), 3),
        (Ledger(newest=4), 4, [(4, 2)], ((2, 4),), 4),  # the number of a batch that failed went to a rollback
        (Ledger(newest=9), 4, [(4, 2)], ((2, 4), (4, 9)), 4),  # a log that lost its tail, unsynced
        (Ledger(newest=3, seen=2, dead=((0, 2),)), 3, [(2, 0)], ((0, 2),), 3),
    ],
)
def test_dead_epochs(
    ledger: Ledger, epoch: int, rollbacks: list[tuple[int, int]], dead: tuple[tuple[int, int], ...], newest: int
) -> None:
    found = follow(ledger, epoch, rollbacks)
    assert (found.dead, found.newest) == (dead, newest)
    assert follow(found, epoch, rollbacks) == found


def test_a_ledger_comes_back_as_it_was_and_damage_is_reported(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    path = layout.stream_quarantine(TABLE, STREAM)
    path.parent.mkdir(parents=True)
    assert read_ledger(StreamPlace(FS, layout, TABLE, STREAM)) is None
    write_ledger(StreamPlace(FS, layout, TABLE, STREAM), LEDGER)
    assert read_ledger(StreamPlace(FS, layout, TABLE, STREAM)) == LEDGER
    data = path.read_bytes()
    broken = [data[:-9], data[:-1], data[: len(data) // 2], b"", b"[]", b"{}", b"\xff"]
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        broken.append(bytes(flipped))
    for each in broken:
        path.write_bytes(each)
        with pytest.raises(CorruptFileError, match="ledger of a quarantine is damaged"):
            read_ledger(StreamPlace(FS, layout, TABLE, STREAM))


@pytest.mark.parametrize(("table", "stream"), [(TABLE, "another"), (TableName("Test", "Another"), STREAM)])
def test_the_ledger_of_another_stream_is_reported(tmp_path: Path, table: TableName, stream: str) -> None:
    layout = Layout(tmp_path)
    layout.streams(table).mkdir(parents=True)
    layout.streams(TABLE).mkdir(parents=True, exist_ok=True)
    write_ledger(StreamPlace(FS, layout, table, stream), LEDGER)
    layout.stream_quarantine(table, stream).rename(layout.stream_quarantine(TABLE, STREAM))
    with pytest.raises(CorruptFileError, match="belongs to another stream"):
        read_ledger(StreamPlace(FS, layout, TABLE, STREAM))


def test_a_ledger_is_read_and_written_as_it_was(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.streams(TABLE).mkdir(parents=True)
    data = (GOLDEN / "stream.quarantine").read_bytes()
    layout.stream_quarantine(TABLE, STREAM).write_bytes(data)
    assert read_ledger(StreamPlace(FS, layout, TABLE, STREAM)) == LEDGER
    assert data == encode_ledger(LEDGER, str(TABLE), STREAM)


def test_a_lost_ledger_is_made_again_from_the_log(tmp_path: Path) -> None:
    fs, layout, quarantine = FS, Layout(tmp_path), quarantine_at(FS, tmp_path)
    files = [put_file(tmp_path / "feed", str(n), [record(2 * n), bad(2 * n + 1)], n) for n in range(1, 8)]
    with open_log(fs, tmp_path) as log:
        for number, file in enumerate(files[:6], 1):
            take(fs, tmp_path, log, [[file]], quarantine.add, number)
        assert log.rollback(4) == 7
    quarantine.add([rejected_at(tmp_path / "died", 1)], 8)  # no commit followed
    layout.stream_quarantine(TABLE, STREAM).unlink()
    with restart(fs, tmp_path, quarantine) as log:
        assert [epoch for epoch, _ in marks(quarantine)] == [1, 2, 3, 4]
        found = read_ledger(StreamPlace(fs, layout, TABLE, STREAM))
        assert found == Ledger(str(quarantine.directory), "", 7, 7)
        take(fs, tmp_path, log, [[file] for file in files[4:]], quarantine.add, 8)
    with restart(fs, tmp_path, quarantine) as log:
        assert [epoch for epoch, _ in marks(quarantine)] == [1, 2, 3, 4, 8, 8, 8]


def test_that_rows_were_rejected_is_kept_through_checkpoint_and_head() -> None:
    state = StreamState("s", epoch=9, rejected=4)
    again = decode_checkpoint(encode_checkpoint(Checkpoint(state, 0)), "s", "here").state
    assert (again.rejected, rebuilt_ledger(again, "/there").dead) == (4, ((9, NEVER),))


def test_what_cannot_be_distinguished_is_not_taken_for_rolled_back() -> None:
    pairs = tuple((10 * n, 10 * n + 3) for n in range(MAX_PAIRS))
    state = StreamState("s", epoch=5000, rejected=1, rolled_back=pairs)
    assert rebuilt_ledger(state, "").dead == (*pairs[1:], (5000, NEVER))
    assert rebuilt_ledger(replace(state, rolled_back=pairs[1:]), "").dead == (*pairs[1:], (5000, NEVER))


def test_verify_tells_a_ledger_that_is_lost_damaged_or_may_not_be_read(tmp_path: Path) -> None:
    layout, quarantine = Layout(tmp_path), quarantine_at(FS, tmp_path)
    path = layout.stream_quarantine(TABLE, STREAM)
    file = put_file(tmp_path / "feed", "1", [record(0), bad(1)], 1)
    with open_log(FS, tmp_path) as log:
        take(FS, tmp_path, log, [[file]], quarantine.add)
        state = log.state

        def reported() -> list[tuple[str, str]]:
            return [(found.code, found.path) for found in check_beside(StreamPlace(FS, layout, TABLE, STREAM), state)]

        assert reported() == []
        path.write_bytes(path.read_bytes()[:-3])
        assert reported() == [("E201", str(path))]
        path.unlink()
        assert reported() == [("W307", str(path))]
        path.mkdir()
        assert reported() == [("E202", str(path))]
        path.rmdir()
        lock = layout.stream_lock(TABLE, STREAM)
        lock.unlink()
        lock.mkdir()  # as one that permissions forbid to read, also for root
        assert reported() == [("W307", str(path)), ("E202", str(lock))]
