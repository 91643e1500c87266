"""The rolled-back epochs of a stream: as pairs, in bounded size, and with locations, where they may have left files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sparkhaven.store.epochs.state.log_records import CommitRecord, Record, RollbackRecord
from sparkhaven.store.layout import LocationKey

RolledBack = tuple[tuple[int, int], ...]
"""Pairs (restored epoch, epoch of the rollback), ascending and disjoint: the epochs between the two are rolled back."""

MAX_PAIRS = 100


def fold(known: RolledBack, to: int, epoch: int) -> RolledBack:
    """Adds a rollback that is newer than all known ones; drops those that it covers.

    Above ``MAX_PAIRS`` the oldest two become one. Epochs between them then count as rolled back too, which only a
    reader can meet that has stood still for a hundred rollbacks.
    """
    pairs = [*(pair for pair in known if pair[0] < to), (to, epoch)]
    if len(pairs) > MAX_PAIRS:
        pairs[:2] = [(pairs[0][0], pairs[1][1])]
    return tuple(pairs)


def restored(known: RolledBack, epoch: int) -> int | None:
    """None if an epoch was not rolled back, else the restored older epoch."""
    return min((to for to, rollback in known if to < epoch < rollback), default=None)


@dataclass(frozen=True, slots=True)
class RolledBackEpochs:
    """``dead``: the rollbacks, each (restored epoch, its own epoch). ``locations``: those of rolled-back epochs."""

    dead: tuple[tuple[int, int], ...] = ()
    locations: frozenset[LocationKey] = frozenset()

    @staticmethod
    def of(records: Iterable[Record], kept: Sequence[Record]) -> RolledBackEpochs:
        """Of records, of which ``kept`` are on the chain to the newest epoch."""
        live = {record.n for record in kept}
        dead: list[tuple[int, int]] = []
        locations: set[LocationKey] = set()
        for record in records:
            if isinstance(record, RollbackRecord):
                dead.append((record.to, record.epoch))
            elif isinstance(record, CommitRecord) and record.n not in live:
                locations.update(report.key for report in record.batch.reports)
        return RolledBackEpochs(tuple(dead), frozenset(locations))

    def __add__(self, later: RolledBackEpochs) -> RolledBackEpochs:
        return RolledBackEpochs(self.dead + later.dead, self.locations | later.locations)
