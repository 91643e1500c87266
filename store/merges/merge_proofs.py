"""The proof of a merge: rows and digests on both sides, and the rows that a rule or a command left out.

Where rows were left out, the proof in the record has ``identical``, ``digestsDropped`` and ``rowDigestDropped``. It has
``withdrawn`` where a command took rows out, and ``deleted`` where some were in history: lists [where, generation,
rows]. ``filledDropped`` has lists [column id, rows with a value].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RowDeletion:
    """Rows of history that a command deleted: the condition, the merge that left them out, and their number."""

    where: str
    generation: int
    rows: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Rows of the sources that the outputs lack by a rule: how many, and how many of them were equal to a kept row.

    ``digests`` are those of the rows by column, as 32 hex digits, and ``row_digest`` that of all columns together.
    ``withdrawn``: how many were withdrawn by a command.
    ``deletions``: which of these were deleted from history; the others were withdrawn before they were merged.
    ``filled``: rows with a value by the id of the column, of those that were stored then; where rows were left out by
    a release that did not count, fewer or none.
    """

    rows: int = 0
    identical: int = 0
    digests: dict[str, str] = field(default_factory=dict)
    withdrawn: int = 0
    deletions: tuple[RowDeletion, ...] = ()
    filled: dict[int, int] = field(default_factory=dict)
    row_digest: str = "0" * 32


@dataclass(frozen=True, slots=True)
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


def encode_left_out(rows: LeftOut) -> dict[str, object]:
    """The entries of a proof, but for ``dropped``."""
    if not rows.rows:
        return {}
    entries: dict[str, object] = {
        "identical": rows.identical,
        "digestsDropped": rows.digests,
        "rowDigestDropped": rows.row_digest,
    }
    if rows.withdrawn:
        entries["withdrawn"] = rows.withdrawn
    if rows.deletions:
        entries["deleted"] = [[d.where, d.generation, d.rows] for d in rows.deletions]
    if rows.filled:
        entries["filledDropped"] = sorted(rows.filled.items())
    return entries


def decode_left_out(proof: Mapping[str, Any]) -> LeftOut:
    """The inverse of ``encode_left_out``. KeyError, TypeError: an entry is missing."""
    return LeftOut(
        proof["dropped"],
        proof.get("identical", 0),
        proof.get("digestsDropped", {}),
        proof.get("withdrawn", 0),
        tuple(RowDeletion(*entry) for entry in proof.get("deleted", ())),
        dict(proof.get("filledDropped", ())),
        proof["rowDigestDropped"] if proof["dropped"] else "0" * 32,
    )
