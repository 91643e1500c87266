"""The publish phase of a merge, after its check: publish, index, record, clean, for one date or several at once.

All of it is idempotent, so of these phases only the last two are stored. The record of phase ``record`` is the commit
point: readers see the old state before it and the new state after it. Several dates share one index and one sync.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.system_errors import in_phase
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.records import MergeRecord, load_records, store_records
from sparkhaven.store.types.frozen import frozen
from sparkhaven.writers.merge.plan.plan import Destination
from sparkhaven.writers.merge.publish import publish, retire, sweep, write_index
from sparkhaven.writers.merge.write.phases import Failure

GRACE_S = 3600.0


@frozen
class Published:
    """A published merge. ``clean_error``: why files that it left behind could not be removed; None: they are gone."""

    record: MergeRecord
    clean_error: SparkhavenError | OSError | None = None


class PublishPhase:
    """Publishes merges of one table. ``clock`` gives seconds since the epoch; replaced ones stay ``GRACE_S``."""

    def __init__(self, fs: Fs, layout: Layout, table: TableName, clock: Callable[[], float]) -> None:
        self._fs, self._layout, self._table, self._clock = fs, layout, table, clock

    def close(self, records: Sequence[MergeRecord]) -> list[Published | Failure]:
        """Publishes merges whose check is stored; results in order. A failed one does not stop the others.

        An error after the commit point fails no merge: it is returned with the published record.
        """
        fs, layout, table = self._fs, self._layout, self._table
        results: list[MergeRecord | Failure] = []
        with fs.during("merge-publish"):
            touched: list[Path] = []
            for record in records:
                try:
                    with in_phase("publish"):
                        for destination in destinations_of(record):
                            touched += publish(fs, layout, table, record.value, destination)
                    results.append(record)
                except (SparkhavenError, OSError) as error:
                    results.append(Failure(error))
            fs.sync_dirs(touched)
        published = [result for result in results if isinstance(result, MergeRecord)]
        if not published:
            return [result for result in results if isinstance(result, Failure)]
        with fs.during("merge-index"):
            write_index(fs, layout, table, published)
        with fs.during("merge-record"):
            now = {"switched_ms": int(self._clock() * 1000)}
            published = [replace(record, phase="record", details=record.details | now) for record in published]
            store_records(fs, layout, table, published)
        closed = iter(self.tidy(published))
        return [next(closed) if isinstance(result, MergeRecord) else result for result in results]

    def tidy(self, records: Sequence[MergeRecord]) -> list[Published]:
        """Removes what published merges have left behind, of each as far as it goes; results in order."""
        errors: dict[str, SparkhavenError | OSError] = {}
        cleaned: list[MergeRecord] = []
        for record in records:
            try:
                with in_phase("clean"), self._fs.during("merge-clean"):
                    cleaned += self._sweep(record)
            except (SparkhavenError, OSError) as error:
                errors[record.value] = error
        try:
            with in_phase("clean"):
                store_records(self._fs, self._layout, self._table, cleaned)
        except (SparkhavenError, OSError) as error:
            errors |= {record.value: error for record in cleaned}
        return [
            Published(record, errors[record.value])
            if record.value in errors
            else Published(replace(record, phase="clean"))
            for record in records
        ]

    def _sweep(self, record: MergeRecord) -> list[MergeRecord]:
        """Removes the staging of a merge, and of earlier ones of its date whose cleaning failed; their new records."""
        known = load_records(self._fs, self._layout, self._table, record.value)
        older = [each for each in known if each.phase == "record" and each.generation < record.generation]
        for each in (*older, record):
            sweep(self._fs, staging_of(each))
        self.retire_replaced(record.value)
        return [replace(each, phase="clean") for each in (*older, record)]

    def retire_replaced(self, value: str) -> None:
        """Removes a date's replaced locations whose grace period is over."""
        now = self._clock()
        records = load_records(self._fs, self._layout, self._table, value)
        complete = [record for record in records if record.complete]
        alive = {output.internal for output in complete[-1].outputs} if complete else set()
        for record in complete:
            if now - record.published_ms / 1000 >= GRACE_S:
                for internal in record.replaces:
                    if internal not in alive:
                        retire(self._fs, self._layout, self._table, value, internal)


def destinations_of(record: MergeRecord) -> list[Destination]:
    """The destinations that a record's own run wrote and that have rows."""
    made = {output.internal for output in record.outputs}
    entries = [entry for entry in record.details["destinations"] if entry[1] in made]
    return [Destination(entry[0], entry[1], Path(entry[2]), Path(entry[3])) for entry in entries]


def staging_of(record: MergeRecord) -> list[Path]:
    """Every staging directory of a record's run, used or not."""
    roots = {Path(entry[2]) for entry in record.details["destinations"]} | {Path(record.details["work"])}
    return sorted(roots)
