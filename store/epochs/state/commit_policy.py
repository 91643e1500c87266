"""What the commits of a stream promise: whether each batch is on disk, what a power failure may lose, what is kept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Durability = Literal["fsync", "periodic", "none"]
SYNC_SECONDS = 10.0
DEFAULT_MAX_FILE_AGE_S = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class CommitPolicy:
    """The durability of a stream, made once from its settings. ``interval_s``: between the syncs of ``periodic``."""

    durability: Durability = "fsync"
    interval_s: float = SYNC_SECONDS

    @property
    def syncs_each_batch(self) -> bool:
        return syncs_each_batch(self.durability)

    @property
    def loss_window_s(self) -> float:
        """How old commits are, in seconds, when they are synced; infinity: nothing syncs them while batches run."""
        if self.syncs_each_batch:
            return 0.0
        return self.interval_s if self.durability == "periodic" else math.inf


def syncs_each_batch(durability: Durability) -> bool:
    """Whether commits of a log that was opened with this durability are durable when they return."""
    return durability == "fsync"


@dataclass(frozen=True, slots=True)
class Retention:
    """A rollback can go back ``keep_epochs``; a taken file is remembered for ``max_file_age_s``.

    A log below ``compact_bytes`` is never compacted, and grows by at least ``head_bytes`` between two heads. A slice of
    a compaction applies at least ``slice_work`` records of locations.
    """

    policy: CommitPolicy = CommitPolicy()
    keep_epochs: int = 100
    max_file_age_s: float = DEFAULT_MAX_FILE_AGE_S
    compact_bytes: int = 1 << 20
    head_bytes: int = 1 << 16  # some hundred small epochs, which a reader decodes in milliseconds
    slice_work: int = 50


DEFAULTS = Retention()
