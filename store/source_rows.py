"""Rows as their source counts them, against what became of them: taken, rejected, or left out by a rule.

The source counts by something else than the decoded values: the footer of a file, the number of a line, the messages or
batches it was given. So a decoder that loses a row, or makes one up, is found, and nothing of it is committed.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkhaven.store.errors import FeedError


@dataclass(slots=True)
class SourceRows:
    """The rows of one source. ``counted`` by the source itself, None until it has done so.

    ``left``: of these, rows that a rule leaves out without rejecting them: blank lines, comments and headers, lines
    inside of a record, tombstones, rows of other tables, dates that were not asked for.
    """

    counted: int | None = None
    left: int = 0

    def count(self, rows: int) -> None:
        """The source has so many rows, or so many more."""
        self.counted = (self.counted or 0) + rows

    def leave(self, rows: int) -> None:
        """So many of them are left out."""
        self.left += rows

    def add(self, other: SourceRows) -> None:
        """Adds the rows of another source. FeedError: that one has not counted them."""
        if other.counted is None:
            other.require(0, 0, None)
        self.count(other.counted or 0)
        self.left += other.left

    def require(self, taken: int, rejected: int, where: object) -> None:
        """FeedError unless all rows of the source were taken, rejected or left out, and no others."""
        if self.counted == taken + rejected + self.left:
            return
        counted = "no number of rows" if self.counted is None else f"{self.counted:,} rows"
        raise FeedError(
            "a source has another number of rows than were decoded",
            where=where,
            expected=f"{counted}, as the source counts them",
            found=f"{taken:,} taken, {rejected:,} rejected, {self.left:,} left out",
            hint="report this with the file, or a sample of the rows. Nothing was committed",
        )
