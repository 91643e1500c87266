"""Parts of files among the splits of a batch: several tasks read one file, but its position is the whole file.

A part exists from the plan of a batch to its commit. The log classifies whole files, and an epoch takes all parts of a
file or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from sparkhaven.store.epochs.state.file_positions import Resolution
from sparkhaven.store.epochs.state.log_values import FileId, FilePart, Split
from sparkhaven.store.errors import EpochConflictError


def by_position(splits: Iterable[Split]) -> dict[Split, list[Split]]:
    """The positions that splits belong to, each with its splits in order.

    EpochConflictError: the parts of a file have a gap or overlap.
    """
    positions: dict[Split, list[Split]] = {}
    for split in splits:
        positions.setdefault(split.whole if isinstance(split, FilePart) else split, []).append(split)
    for whole, parts in positions.items():
        if isinstance(whole, FileId) and any(isinstance(part, FilePart) for part in parts):
            _require_tiled(whole, parts)
    return positions


def classified(splits: Sequence[Split], classify: Callable[[Sequence[Split]], Resolution]) -> Resolution:
    """The resolution that ``classify`` gives for positions, mapped to their splits."""
    parted = any(isinstance(split, FilePart) for split in splits)
    wholes = by_position(splits) if parted else {}
    resolution = classify(list(wholes) if parted else splits)  # ``classify`` refuses a repeated split

    def parts(positions: Iterable[Split]) -> tuple[Split, ...]:
        return tuple(split for position in positions for split in wholes.get(position, [position]))

    below = tuple(split for split in parts(resolution.below) if isinstance(split, FileId))
    return Resolution(parts(resolution.fresh), parts(resolution.taken), below, resolution.cut)


def _require_tiled(whole: FileId, splits: Sequence[Split]) -> None:
    parts = sorted(split for split in splits if isinstance(split, FilePart))
    joints = [(before.stop, after.start) for before, after in pairwise(parts)]
    ends = parts[0].start == 0 and parts[-1].stop == whole.size
    if not ends or len(parts) < len(splits) or any(stop != start for stop, start in joints):
        raise EpochConflictError(
            "the parts of a file do not cover it exactly once",
            where=whole.path,
            expected=f"bytes 0 to {whole.size}, once",
            found=", ".join(f"{part.start} to {part.stop}" for part in parts),
            hint="restart the stream. Nothing of this batch was committed",
        )
