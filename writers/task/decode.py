"""The interface of decoders, as the tasks of a batch call them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa

from sparkhaven.store.epochs.state.log_values import Split
from sparkhaven.store.layout import LocationKey
from sparkhaven.writers.task.notes import SplitNotes


class Decode(Protocol):
    """Decodes a split to routed rows, in order; rejected rows go into ``notes``. Must pickle."""

    def __call__(self, split: Split, notes: SplitNotes) -> Iterable[tuple[LocationKey, pa.RecordBatch]]:
        """Batches hold the stored columns of the table by name; missing ones are null."""
        ...
