"""How a stream keeps what it commits."""

from __future__ import annotations

from dataclasses import dataclass

from store.epochs.compaction import COMPACT_BYTES, LEAST_WORK
from store.epochs.files.head import HEAD_BYTES
from store.epochs.state.files import DEFAULT_MAX_FILE_AGE_S
from store.epochs.state.values import Durability


@dataclass(frozen=True, slots=True)
class Retention:
    """``keep_epochs`` before the newest can be gone back to; a taken file is remembered for ``max_file_age_s``.

    A log below ``compact_bytes`` is never compacted, and grows by ``head_bytes`` at least from one head to the next.
    A slice of a compaction takes as long as ``slice_work`` locations take to go on by a record, at least.
    """

    durability: Durability = "fsync"
    keep_epochs: int = 100
    max_file_age_s: float = DEFAULT_MAX_FILE_AGE_S
    compact_bytes: int = COMPACT_BYTES
    head_bytes: int = HEAD_BYTES
    slice_work: int = LEAST_WORK

    @property
    def synced(self) -> bool:
        """Whether a commit is durable when it returns."""
        return self.durability == "fsync"


DEFAULTS = Retention()
