"""The head beside a checkpoint: replaced with it, and not used beside another one."""

from __future__ import annotations

from pathlib import Path

from sparkhaven.store.framing import LOG_MAGIC, frame, header, scan
from sparkhaven.store.layout import Layout
from tests.support.streams.head_cases import FS, epochs, made, newest, place, resumed
from tests.support.streams.tiny_writer import STREAM, TABLE, open_log

__all__ = ["made"]


def test_a_compaction_replaces_it_and_one_of_another_checkpoint_is_not_used(made: Path) -> None:
    old = place(made).read_bytes()
    with open_log(FS, made, keep_epochs=3) as log:
        assert log.compact_if_due(now=True)
        assert log.state.floor == 3
        assert (newest(made).opened.epoch, newest(made).records) == (3, ())
        place(made).write_bytes(old)  # its record is still in the log
        assert newest(made).head is None
        log.write_head()
        assert newest(made).opened.epoch == 3
        assert newest(made).records == ()
        epochs(made, log, 7)
    with open_log(FS, made, keep_epochs=3):
        assert len(newest(made).records) == 2


def test_between_the_two_files_of_a_compaction(made: Path) -> None:
    layout = Layout(made)
    log_bytes = layout.stream_log(TABLE, STREAM).read_bytes()
    with open_log(FS, made, keep_epochs=3) as log:
        log.compact_if_due(now=True)
        log.write_head()
        frames = scan(layout.stream_log(TABLE, STREAM).read_bytes()).frames
    opened = scan(log_bytes).frames
    whole = header(LOG_MAGIC, 0) + b"".join(frame(f.payload) for f in (*opened, frames[-1]))
    layout.stream_log(TABLE, STREAM).write_bytes(whole)  # the log begins before the checkpoint
    found = newest(made)
    assert found.head is None  # its place in the log is another one
    assert len(found.records) == len(frames)


def test_a_head_at_the_checkpoint_itself(made: Path) -> None:
    path = Layout(made).stream_log(TABLE, STREAM)
    with open_log(FS, made, keep_epochs=0) as log:
        data = path.read_bytes()
        log.compact_if_due(now=True)
        log.write_head()
        assert newest(made).head is None
    path.write_bytes(data)
    assert newest(made).head is None
    assert resumed(made).state.epoch == 6
