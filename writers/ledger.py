"""What a stream's quarantine has not taken over from the commit log yet: the log decides, the quarantine follows.

Rejected rows are parked before the commit point, under the number of the epoch that is about to be committed. So a row
can be there although its epoch never came to be (the process died in between), or was rolled back since; both times
the stream reads the source again, and whatever it rejects then is parked again. Such epochs are *dead*: rows that were
parked for them go, and rows that were sent again by them are as if they had not been. Epoch numbers of the log are
never used twice, but one that was not committed is; therefore the ledger is brought up to date, and the quarantine with
it, at each start before anything else may be parked.

``<stream>.quarantine`` is one JSON object: ``place`` (of the quarantine), ``file`` (the stream's settings), ``newest``
(no row is parked or sent again under a later epoch), ``seen`` (the newest rollback that is taken over), ``dead``
[[after, up to], ...] (epochs whose rows are still to be removed). It is replaced as a whole, durably, before the
quarantine changes. A stream that never parked a row has none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from store.epochs.load import list_rollbacks
from store.epochs.replay import StreamState
from store.errors import CorruptFileError
from store.fs import Fs
from store.layout import Layout, TableName


@dataclass(frozen=True, slots=True)
class Ledger:
    """The content of the file. A pair of ``dead`` means the epochs after its first number, up to its second."""

    place: str = ""
    file: str = ""
    newest: int = 0
    seen: int = 0
    dead: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Requeue:
    """Rows on their way back into the table: a file in ``layout.requeues``, for one range of positions, one epoch."""

    path: Path
    start: int
    epoch: int


def read_ledger(fs: Fs, path: Path) -> Ledger | None:
    """The ledger in a file, None if there is none; CorruptFileError if it cannot be read."""
    try:
        value = json.loads(fs.read(path))
        dead = tuple((int(after), int(upto)) for after, upto in value["dead"])
        return Ledger(str(value["place"]), str(value["file"]), int(value["newest"]), int(value["seen"]), dead)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(
            "the ledger of a quarantine is damaged",
            where=path,
            expected="a JSON object with place, file, newest, seen, dead",
            found=repr(error),
            hint="restore it from a copy; without it, rows of epochs that were rolled back may be sent again",
        ) from error


def write_ledger(fs: Fs, path: Path, ledger: Ledger) -> None:
    """Replaces the ledger; durable when it returns."""
    value = {"place": ledger.place, "file": ledger.file, "newest": ledger.newest, "seen": ledger.seen}
    with fs.during("quarantine-ledger"):
        fs.replace(path, json.dumps(value | {"dead": ledger.dead}, sort_keys=True).encode() + b"\n")


def follow(ledger: Ledger, epoch: int, rollbacks: Iterable[tuple[int, int]]) -> Ledger:
    """The ledger brought up to a log at ``epoch``; ``rollbacks`` are pairs of their own epoch and the restored one."""
    dead, seen = list(ledger.dead), ledger.seen
    for made, restored in sorted(rollbacks):
        if made > seen:
            dead.append((restored, made))
            seen = made
    newest = ledger.newest
    if newest > epoch:
        dead.append((epoch, newest))
        newest = epoch
    return replace(ledger, newest=newest, seen=seen, dead=tuple(dead))


def follow_log(
    fs: Fs, layout: Layout, table: TableName, state: StreamState, *, read_only: bool = False
) -> Ledger | None:
    """The ledger brought up to the log of a stream, and written; None where there is none.

    The caller holds the stream, unless ``read_only``.
    """
    path = layout.stream_quarantine(table, state.stream)
    ledger = read_ledger(fs, path)
    if ledger is None:
        return None
    followed = follow(ledger, state.epoch, list_rollbacks(fs, layout, table, state.stream))
    if followed != ledger and not read_only:
        write_ledger(fs, path, followed)
    return followed


def leftovers(fs: Fs, layout: Layout, table: TableName, state: StreamState) -> tuple[list[Requeue], list[Requeue]]:
    """Requeues that were interrupted: those that were committed and those that were not.

    The commit log holds the position of those that were; of the others nothing is in the table.
    """
    directory, position = layout.requeues(table, state.stream), state.offsets.requeued
    found = []
    for name in fs.names(directory):
        start, _, epoch = name.removesuffix(".parquet").partition("-")
        if name.endswith(".parquet") and start.isdigit() and epoch.isdigit():
            found.append(Requeue(directory / name, int(start), int(epoch)))
    committed = [requeue for requeue in found if requeue.start < position]
    return committed, [requeue for requeue in found if requeue.start >= position]


def requeue_path(layout: Layout, table: TableName, stream: str, start: int, epoch: int) -> Path:
    """The file for rows that are sent again from position ``start`` on, in the epoch of that number."""
    return layout.requeues(table, stream) / f"{start}-{epoch}.parquet"
