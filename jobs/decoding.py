"""Between ingest and the writers: decodes a split by the stream's settings, and weighs what it rejects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from ingest.bad_rows import BadRow, Rejects, as_batch, check_budget
from ingest.decode import decode_split, late_rows
from ingest.spec import BadRowBudget, StreamSpec
from store.epochs.state import FileId, Split
from store.errors import SettingsError
from store.fs import Fs
from store.layout import LocationKey
from store.schema.model import TableSchema
from writers.target import LateRows, SplitNotes

LATE = "the date was truncated or deleted; it takes no more rows"


@dataclass(frozen=True, slots=True)
class Decoder:
    """What a task calls for each split; goes to the workers by pickle."""

    fs: Fs
    spec: StreamSpec
    schema: TableSchema

    def __call__(self, split: Split, notes: SplitNotes) -> Iterable[tuple[LocationKey, pa.RecordBatch]]:
        """Routed batches in the order of the file; bad rows and counts go into ``notes``."""
        if not isinstance(split, FileId):
            raise SettingsError("this feed has no decoder for offsets", where=split.path, expected="a file")
        rejects = self._rejects(notes)
        for routed in decode_split(self.fs, split, self.spec, self.schema, rejects):
            yield routed.key, routed.batch
        notes.reject(rejects.rows, rejects.bad)
        for name, amount in rejects.counts().items():
            notes.count(name, amount)

    def late(self, split: Split, keys: frozenset[LocationKey], notes: SplitNotes) -> int:
        """Rejects the rows of the split that belong to these locations, which take no more; how many they are."""
        if not isinstance(split, FileId):
            raise SettingsError("this feed has no decoder for offsets", where=split.path, expected="a file")
        rejects = self._rejects(notes)
        found = late_rows(self.fs, split, self.spec, self.schema, keys, rejects)
        notes.reject(rejects.rows, rejects.bad)
        return found

    def _rejects(self, notes: SplitNotes) -> Rejects:
        return Rejects(self.spec.bad_rows, sink=lambda rows: notes.park(as_batch(rows)))


@dataclass(frozen=True, slots=True)
class Budget:
    """The judge of a batch: more bad rows than ``budget`` allows stop it, with nothing committed."""

    budget: BadRowBudget

    def __call__(self, notes: SplitNotes, good: int) -> None:
        """Raises ErrorBudgetExceeded that names the first bad rows."""
        rows = [_as_bad_row(sample) for sample in notes.rejected]
        check_budget(rows, notes.rejected_rows, good + notes.rejected_rows, self.budget)


def _as_bad_row(sample: object) -> BadRow:
    if isinstance(sample, BadRow):
        return sample
    if isinstance(sample, LateRows):
        place = f"{sample.key.internal}/{sample.key.value}"
        return BadRow(sample.file, 0, None, sample.reason, LATE, f"{sample.rows} rows for {place}")
    return BadRow("unknown", 0, None, "rejected", "a good row", str(sample))
