"""Retention and durability settings of a stream."""

from __future__ import annotations

from sparkhaven.store.epochs.compaction import COMPACT_BYTES, LEAST_WORK
from sparkhaven.store.epochs.files.head import HEAD_BYTES
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.epochs.state.file_positions import DEFAULT_MAX_FILE_AGE_S
from sparkhaven.store.types.frozen import frozen


@frozen
class Retention:
    """A rollback can go back ``keep_epochs``; a taken file is remembered for ``max_file_age_s``.

    A log below ``compact_bytes`` is never compacted, and grows by at least ``head_bytes`` between two heads. A slice of
    a compaction applies at least ``slice_work`` records of locations.
    """

    policy: CommitPolicy = CommitPolicy()
    keep_epochs: int = 100
    max_file_age_s: float = DEFAULT_MAX_FILE_AGE_S
    compact_bytes: int = COMPACT_BYTES
    head_bytes: int = HEAD_BYTES
    slice_work: int = LEAST_WORK


DEFAULTS = Retention()
