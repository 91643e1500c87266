"""Parts of files among the splits of a batch: several tasks read one file, and its position is the whole file.

A part exists from the plan of a batch to its commit. The log judges whole files, and an epoch takes all parts of a file
or none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from store.epochs.state.files import Resolution
from store.epochs.state.values import FileId, FilePart, Split
from store.errors import EpochConflictError


def by_position(splits: Iterable[Split]) -> dict[Split, list[Split]]:
    """The positions that splits are of, each with its splits in order.

    EpochConflictError if the parts of a file leave something out, or overlap.
    """
    found: dict[Split, list[Split]] = {}
    for split in splits:
        found.setdefault(split.whole if isinstance(split, FilePart) else split, []).append(split)
    for whole, parts in found.items():
        if isinstance(whole, FileId) and any(isinstance(part, FilePart) for part in parts):
            _require_tiled(whole, parts)
    return found


def classified(splits: Sequence[Split], classify: Callable[[Sequence[Split]], Resolution]) -> Resolution:
    """What ``classify`` says of the positions, said of their splits."""
    parted = any(isinstance(split, FilePart) for split in splits)
    found = by_position(splits) if parted else {}
    resolution = classify(list(found) if parted else splits)  # a split that is named twice is for the classify

    def parts(positions: Iterable[Split]) -> tuple[Split, ...]:
        return tuple(split for position in positions for split in found.get(position, [position]))

    below = tuple(split for split in parts(resolution.below) if isinstance(split, FileId))
    return Resolution(parts(resolution.fresh), parts(resolution.taken), below, resolution.cut)


def _require_tiled(whole: FileId, splits: Sequence[Split]) -> None:
    parts = sorted(split for split in splits if isinstance(split, FilePart))
    joints = [(before.stop, after.start) for before, after in pairwise(parts)]
    ends = parts[0].start == 0 and parts[-1].stop == whole.size
    if not ends or len(parts) < len(splits) or any(stop != start for stop, start in joints):
        raise EpochConflictError(
            "the parts of a file are not the whole file",
            where=whole.path,
            expected=f"bytes 0 to {whole.size}, once",
            found=", ".join(f"{part.start} to {part.stop}" for part in parts),
            hint="start the stream again; nothing of this batch was committed",
        )
