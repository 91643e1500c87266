"""What an import makes history of: rows that a tree has, or that a data frame gave, by date."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sparkhaven.writers.imports.tree_leaves import Part
from sparkhaven.writers.merge.sources.merge_source import MergeSource

CODEC = "LZ4_RAW"  # of what is read back at once
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ConvertedRows:
    """The rows of a date as a merge reads them, in their order; ``digests`` of the columns, by name."""

    sources: tuple[MergeSource, ...]
    digests: Mapping[str, int]


class GivenRows(Protocol):
    """Rows of one or several dates. ``name`` and ``layout``: what the merge record says of their origin."""

    @property
    def name(self) -> str: ...

    @property
    def layout(self) -> str: ...

    def check(self) -> None:
        """Refuses other columns or types than those of the table, before anything is written."""

    def look(self, on_progress: Progress) -> Sequence[Part]:
        """The dates and their rows, for a dry run: nothing is written."""

    def take(self, on_progress: Progress) -> Sequence[Part]:
        """The dates and their rows, to be merged. The table's lock is held."""

    def id_of(self, part: Part, *, ordered: bool) -> str:
        """Names the rows of a date: another name for other rows. ``ordered``: also for the same in another order."""

    def convert(self, part: Part, directory: Path, on_progress: Progress) -> ConvertedRows:
        """The rows of a date, in the types of the columns; what has to be written goes below ``directory``."""

    def release(self) -> None:
        """Removes what ``take`` has written; idempotent."""
