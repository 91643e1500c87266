"""Rejected rows of a stream: how many are pending, by reason, and the rows themselves in its quarantine."""

from __future__ import annotations

import base64
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

from sparkhaven.store.delta.log import is_table
from sparkhaven.store.epochs.files.stream_notes import RemovedStream, read_removed
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import CorruptFileError, TableNotFoundError
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.quarantine.ledger import Ledger, read_ledger
from sparkhaven.writers.quarantine.changes import follow_log, leftovers
from sparkhaven.writers.quarantine.quarantined_rows import QuarantineRows
from sparkhaven.writers.quarantine.row_choice import Chosen, QuarantinedRow
from sparkhaven.writers.quarantine.table import Quarantine, requeued_rows


@dataclass(frozen=True, slots=True)
class QuarantinedStream:
    """A stream that has a quarantine. ``removed``: the note of one that was removed, whose quarantine stays."""

    place: StreamPlace
    ledger: Ledger
    removed: RemovedStream | None = None

    @property
    def epoch(self) -> int:
        """The newest epoch."""
        return load_stream(self.place).epoch if self.removed is None else self.removed.epoch

    def rows(self, chosen: Chosen, limit: int = 0) -> Iterator[QuarantinedRow]:
        """Rejected rows by source and position, ``limit`` 0: all; those of the running batch are left out."""
        if self.removed is not None:
            return self._read(list(self.ledger.dead)).rows(chosen, limit)
        state = load_stream(self.place)
        ledger = follow_log(self.place, state, read_only=True)
        without = [*(ledger.dead if ledger else ()), (state.epoch, None)]
        return self._read(without).rows(chosen, limit)

    def count(self, chosen: Chosen, upto: int) -> int:
        """How many rows of epochs up to ``upto`` are chosen."""
        return self._read([(upto, None)]).count(chosen)

    def pending(self, chosen: Chosen) -> Iterator[QuarantinedRow]:
        """Chosen rows that no requeue has committed."""
        requeued = self.requeued()
        return (row for row in self.rows(chosen) if (row["SourcePartition"], row["Position"]) not in requeued)

    def ingested(self, keys: Collection[tuple[str, int]]) -> frozenset[tuple[str, int]]:
        """Those of these rows, by source and position, that requeues have committed."""
        marked = ((row["SourcePartition"], row["Position"]) for row in self.rows(Chosen(None, None, None, "requeued")))
        return frozenset({*marked, *self.requeued()}.intersection(keys))

    def requeued(self) -> dict[tuple[str, int], int]:
        """Rows that a requeue has committed and not marked yet: their source and position, and its epoch."""
        if self.removed is not None:
            return {}
        state = load_stream(self.place)
        committed, _ = leftovers(self.place, state)
        return {key: requeue.epoch for requeue in committed for key in requeued_rows(self.place.fs, requeue)}

    def quarantine(self) -> Quarantine:
        return Quarantine(self.place, Path(self.ledger.place), clock=time.time, file=self.ledger.file)

    def _read(self, without: list[tuple[int, int | None]]) -> QuarantineRows:
        return _rows(self.place, self.ledger, self.place.stream, without)


def _rows(place: TablePlace, ledger: Ledger, stream: str, without: Sequence[tuple[int, int | None]]) -> QuarantineRows:
    owner = place.table.namespace, place.table.table, stream
    return QuarantineRows(place.fs, Path(ledger.place), owner, without)


def rejected_rows(place: TablePlace, state: StreamState) -> QuarantineRows | None:
    """The rows that a stream has rejected, without those of a running batch; None: it has no quarantine."""
    ledger = follow_log(place, state, read_only=True)
    if ledger is None or not ledger.place or not is_table(place.fs, Path(ledger.place)):
        return None
    return _rows(place, ledger, state.stream, [*ledger.dead, (state.epoch, None)])


@dataclass(frozen=True, slots=True)
class PendingRows:
    """Pending rows of a stream by reason, and the ``newest`` of them without values and payloads.

    ``unread``: why they were not counted.
    """

    stream: str
    pending: Mapping[str, int] = field(default_factory=dict)
    unread: str | None = None
    newest: tuple[Mapping[str, Any], ...] = ()


def pending_rows(place: TablePlace, state: StreamState, *, most_bytes: int, newest: int) -> PendingRows:
    """The pending rows of a stream; those of a quarantine of more bytes are not counted."""
    rows = rejected_rows(place, state)
    if rows is None:
        return PendingRows(state.stream)
    size = rows.size()
    if size > most_bytes:
        return PendingRows(state.stream, unread=f"its files have {size >> 20:,} MiB")
    pending, last = rows.pending(newest)
    return PendingRows(state.stream, pending, newest=tuple(last))


def find(place: StreamPlace, *, removed: bool = False) -> QuarantinedStream | None:
    """The stream with its quarantine, None if it has no rejected rows; ``removed``: also one that was removed.

    An unknown stream is a TableNotFoundError.
    """
    note = read_removed(place) if removed and place.stream not in list_streams(place) else None
    if note is None and place.stream not in list_streams(place):
        raise no_stream(place.streams, place.stream)
    ledger = ledger_of(place) if note is None else read_ledger(place)
    if ledger is None or not is_table(place.fs, Path(ledger.place)):
        return None
    return QuarantinedStream(place, ledger, note)


def no_stream(where: object, stream: str) -> TableNotFoundError:
    hint = "`sparkhaven stats` lists the streams"
    return TableNotFoundError(f"no stream {stream}", where=where, found="no commit log", hint=hint)


def ledger_of(place: StreamPlace) -> Ledger | None:
    """The ledger of a stream; a lost one is derived from the commit log and the default place of quarantines."""
    ledger = read_ledger(place)
    if ledger is not None:
        return ledger
    ledger = follow_log(place, load_stream(place), read_only=True)
    if ledger is not None and not ledger.place:
        raise CorruptFileError(
            "the ledger of a quarantine is missing, and its rows are not in the default place",
            where=place.stream_quarantine,
            expected=f"the ledger, or rows in {place.layout.quarantine(place.stream)}",
            found="neither",
            hint="start the stream once. It writes the ledger again, with the place of its settings",
        )
    return ledger


def row_value(row: QuarantinedRow, requeued: dict[tuple[str, int], int]) -> dict[str, Any]:
    """A row as JSON: payload and key as text, or as base64 where they are not UTF-8."""
    key = (row["SourcePartition"], row["Position"])
    return {
        "stream": row["Stream"],
        "table": f"{row['Namespace']}.{row['TableName']}",
        "source": row["SourcePartition"],
        "position": row["Position"],
        "reason": row["Reason"],
        "detail": row["Detail"],
        "column": row["Column"],
        "expected": row["Expected"],
        "value": row["Value"],
        **_text("payload", row["Payload"]),
        "payload_bytes": row["PayloadBytes"],
        "header": row["Header"],
        **_text("key", row["Key"]),
        "source_time_ns": row["SourceTime"],
        "epoch": row["Epoch"],
        "time": row["Time"].astimezone(UTC),
        "requeued_epoch": row["RequeuedEpoch"] or requeued.get(key),
    }


def _text(name: str, data: bytes | bytearray | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: bytes(data).decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode("ascii")}
