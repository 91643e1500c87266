"""Sizes from which files are read, described and looked up in pieces: for histories of few rows, those of a handful."""

from __future__ import annotations

from types import ModuleType

from sparkhaven.readers.arrow import pinned_table, slices
from sparkhaven.readers.arrow import pinned_table as matching_rows
from sparkhaven.store.epochs.state import packed_location
from sparkhaven.store.scan import narrowing
from sparkhaven.writers.merge.sources.merge_source import SIZES

_SMALL: tuple[tuple[object, str, int], ...] = (
    (narrowing, "FEW", 2),
    (narrowing.WORTH, "long", 2),
    (packed_location, "MERGE_ROWS", 4),
    (pinned_table, "BATCH_ROWS", 3),
    (matching_rows, "BATCH_ROWS", 3),
    (slices, "FILTER_ROWS", 5),
    (SIZES, "rows", 4),
    (SIZES, "texts", 3),
    (SIZES, "chunk_rows", 3),
    (SIZES, "group_rows", 5),
)
_OWN = [getattr(holder, name) for holder, name, _ in _SMALL]


def cut_small(small: bool) -> None:
    """Sets the sizes of this process to those of a handful of rows, or sets them back."""
    for (holder, name, size), own in zip(_SMALL, _OWN, strict=True):
        assign = setattr if isinstance(holder, ModuleType) else object.__setattr__  # the others are frozen
        assign(holder, name, size if small else own)
