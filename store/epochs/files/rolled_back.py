"""Epochs rolled back above the floor; recovery uses them to find what they may have left behind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sparkhaven.store.epochs.state.log_records import CommitRecord, Record, RollbackRecord
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.types.frozen import frozen


@frozen
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
