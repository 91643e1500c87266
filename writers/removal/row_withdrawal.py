"""Withdraws the intraday rows that match a condition, as an epoch of each stream that has some.

No file is changed: readers leave the rows out from that epoch on, older epochs still show them, and the next merge of
their dates leaves them out with proof. Streams must be stopped. All of their logs are opened before the first record is
written. A run that is killed between two of them has withdrawn the rows of the first; the same command goes on. Rows of
history that match are counted, and stay.

Rows are found by a scan of whole locations: neither statistics nor indexes leave any out. Once they are withdrawn, the
table is opened anew, and no row of these streams may match.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial

from sparkhaven.readers.arrow.matching_rows import matching_rows
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.table import pinned_of
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.withdrawal import Withdrawn
from sparkhaven.store.epochs.undo import Withdrawal
from sparkhaven.store.errors import LockLostError, SettingsError, ValidationFailedError
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.scan.seen_history import refuse_unproved
from sparkhaven.store.schema.deployed.deploy import load_deployed

OpenLog = Callable[[StreamPlace], AbstractContextManager[StreamLog]]


@dataclass(frozen=True, slots=True)
class MatchingRows:
    """Rows of the newest snapshot that match: in intraday by stream, and how many in history, by date.

    ``dates``: how many rows each date has, matching or not.
    """

    streams: dict[str, tuple[Withdrawn, ...]]
    history: dict[str, int]
    dates: dict[str, int]

    @property
    def rows(self) -> int:
        return sum(self.of_dates().values())

    def of_dates(self) -> dict[str, int]:
        """The number of matching rows of each date, in order."""
        counts = dict(self.history)
        for parts in self.streams.values():
            for part in parts:
                counts[part.key.value] = counts.get(part.key.value, 0) + part.rows.rows
        return dict(sorted(counts.items()))


@dataclass(frozen=True, slots=True)
class WithdrawnRows:
    """What a run has withdrawn: rows and epoch of each stream that had some. ``matching``: when it began."""

    matching: MatchingRows
    rows: dict[str, Withdrawal]
    epochs: dict[str, int]


def find_rows(
    place: TablePlace, where: str, dates: Sequence[str] | None, *, streams: Collection[str] | None = None
) -> MatchingRows:
    """The rows that match, in the newest snapshot. TableNotFoundError: a user table. Raises what reading raises.

    ValidationFailedError: some are in history that is not as a merge record says, which no deletion can prove.
    ``streams``: rows of these alone that are not merged.
    """
    pinned = pinned_of(open_table(place.layout.root, str(place.table), fs=place.fs))
    load_deployed(place)  # a user table has none
    predicate = pinned.predicate(where)
    if predicate is None:
        raise SettingsError("there is no condition", expected="SQL, like 'Size < 0'", found=where)
    parts: dict[str, list[Withdrawn]] = {}
    history: dict[str, int] = {}
    plan = pinned.plan(dates=dates, where=predicate, pruned=False)
    slices = plan.slices
    chosen = [slice_ for slice_ in slices if streams is None or slice_.stream in streams]
    for slice_, rows in matching_rows(pinned, chosen, predicate):
        if slice_.stream is None:
            history[slice_.key.value] = history.get(slice_.key.value, 0) + rows.rows
        else:
            location = pinned.pin(slice_.stream).state.locations[slice_.key]
            parts.setdefault(slice_.stream, []).append(Withdrawn(slice_.key, location.since, rows))
    refuse_unproved(place, [seen for seen in plan.differing if seen.value in history])
    totals: dict[str, int] = {}
    for slice_ in slices:
        totals[slice_.key.value] = totals.get(slice_.key.value, 0) + slice_.count
    return MatchingRows({stream: tuple(own) for stream, own in sorted(parts.items())}, history, totals)


def withdraw_rows(place: TablePlace, where: str, dates: Sequence[str] | None, open_log: OpenLog) -> WithdrawnRows:
    """Withdraws the rows that match, as they are when the logs of their streams are held; none: no epoch is made.

    LockLostError: a stream, a merge or a removal is running; nothing was changed. ValidationFailedError: rows that
    match are still shown. Raises what ``find_rows`` raises.
    """
    first = find_rows(place, where, dates)
    rows: dict[str, Withdrawal] = {}
    epochs: dict[str, int] = {}
    with ExitStack() as opened:
        logs = {stream: opened.enter_context(open_log(place.of_stream(stream))) for stream in first.streams}
        now = find_rows(place, where, dates, streams=logs) if logs else first

        def plan(stream: str) -> Withdrawal:
            rows[stream] = _again(place, where, dates, stream)
            return rows[stream]

        for stream, log in logs.items():
            if now.streams.get(stream):
                epochs[stream] = log.withdraw(partial(plan, stream))
        left = find_rows(place, where, dates, streams=epochs).streams if epochs else {}
    for stream, parts in left.items():
        raise ValidationFailedError(
            "rows that match are still shown after they were withdrawn",
            where=place.of_stream(stream).stream_log,
            expected=f"no row after epoch {epochs[stream]}, which withdrew {rows[stream].rows}",
            found=f"{sum(part.rows.rows for part in parts)} rows",
            hint="report it: this is a bug. Epochs are taken back by"
            f" `sparkhaven epochs rollback {place.table} {stream} --to {epochs[stream] - 1}`",
        )
    return WithdrawnRows(first, rows, epochs)


def _again(place: TablePlace, where: str, dates: Sequence[str] | None, stream: str) -> Withdrawal:
    """The rows of one stream, found once more under the lock of the table: a merge may have come before it."""
    parts = find_rows(place, where, dates, streams=[stream]).streams.get(stream)
    if parts is None:
        raise LockLostError(
            "a merge has taken the rows that match into history meanwhile",
            where=place.of_stream(stream).stream_log,
            hint="run this again: it deletes them from there",
        )
    return Withdrawal((), f"deleted where {where}", parts)
