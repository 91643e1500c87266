"""What the commits of a stream promise: whether each batch is on disk, and what a power failure may lose."""

from __future__ import annotations

import math
from typing import Literal

from sparkhaven.store.types.frozen import frozen

Durability = Literal["fsync", "periodic", "none"]
SYNC_SECONDS = 10.0


@frozen
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
