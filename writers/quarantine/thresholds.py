"""When a change of the quarantine makes more work of its table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """So many small files are written as one; a checkpoint follows so many versions, where the table does not say."""

    small_files: int = 50  # as Delta's own compaction
    checkpoint_versions: int = 10  # Delta's default


THRESHOLDS = Thresholds()
