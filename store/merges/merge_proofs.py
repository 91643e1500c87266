"""The proof of a merge: rows and digests on both sides, and the rows that a rule left out."""

from __future__ import annotations

from dataclasses import field

from sparkhaven.store.types.frozen import frozen


@frozen
class LeftOut:
    """Rows of the sources that the outputs lack by a rule: how many, and how many of them were equal to a kept row.

    ``digests`` are those of the rows by column, as 32 hex digits. ``withdrawn``: how many were withdrawn by a command.
    """

    rows: int = 0
    identical: int = 0
    digests: dict[str, str] = field(default_factory=dict)
    withdrawn: int = 0


@frozen
class Proof:
    """Row counts and digests of every column on both sides; digests as 32 hex digits.

    ``digests_in`` are those of the rows that are not left out.
    """

    rows_in: int
    rows_out: int
    digests_in: dict[str, str]
    digests_out: dict[str, str]
    left_out: LeftOut = LeftOut()

    @property
    def dropped(self) -> int:
        return self.left_out.rows

    @property
    def holds(self) -> bool:
        """Whether nothing was lost, doubled or changed."""
        return self.rows_in == self.rows_out + self.dropped and self.digests_in == self.digests_out
