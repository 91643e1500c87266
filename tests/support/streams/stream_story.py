"""One small story of a stream, run again after every crash: four batches that use each step of the protocol.

New locations and grown ones, new and known symbols, a batch of two tasks that meet at both locations, a retried task, a
file without rows. The story of a topic is the same with ranges of offsets in place of files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.log_values import FileId, OffsetRange, Split
from sparkhaven.store.io.fs import Fs
from tests.support.streams.stream_kit import MESSAGES_0, ingest, open_log, put_file, record

Groups = list[list[Split]]
ROWS = 46


def write_feed(feed: Path) -> list[Groups]:
    """The files of the four batches, grouped by task."""

    def file(number: int, *parts: tuple[str, range]) -> FileId:
        rows = [record(n, source) for source, some in parts for n in some]
        return put_file(feed, f"{number}.json", rows, number)

    return [
        [[file(1, ("a", range(8)), ("b", range(8, 12)))]],
        [
            [file(2, ("a", range(12, 16)), ("b", range(16, 20)))],
            [file(3, ("b", range(20, 24)), ("a", range(24, 28))), file(4)],
        ],
        [[file(5, ("c", range(28, 32)))], [file(6, ("a", range(32, 36)))]],
        [[file(7, ("b", range(36, 41)), ("c", range(41, 46)))]],
    ]


def write_topic(feed: Path) -> list[Groups]:
    """The ranges of four batches, grouped by task; the topic needs no writing. Both partitions go to both locations."""
    del feed

    def read(partition: int, start: int, stop: int) -> OffsetRange:
        return OffsetRange("topic", partition, start, stop, "id")

    return [
        [[read(0, 0, 12), read(1, 0, 0)]],
        [[read(0, 12, 17)], [read(0, 17, 20), read(0, 20, 25)]],
        [[read(0, 25, MESSAGES_0)], [read(1, 0, 4)]],
        [[read(1, 4, 9), read(1, 9, ROWS - MESSAGES_0)]],
    ]


STORIES = {"files": write_feed, "topic": write_topic}


def tell(fs: Fs, root: Path, batches: list[Groups], committed: Callable[[int], None] = lambda epoch: None) -> StreamLog:
    """Opens the stream and runs all batches from the first; committed ones are no-ops. Returns the closed log."""
    log = open_log(fs, root)
    try:
        for number, groups in enumerate(batches):
            # the second task comes first, and in the second batch every task is tried twice
            order = range(len(groups))[::-1]
            outcome = ingest(fs, root, log, groups, number, order=order, attempts=2 if number == 1 else 1)
            if outcome.epoch is not None:
                committed(outcome.epoch)
            log.write_head()
    finally:
        if log._lock.held:
            log._lock.release()
    return log
