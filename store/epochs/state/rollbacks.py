"""The rolled-back epochs of a stream, in bounded size."""

from __future__ import annotations

RolledBack = tuple[tuple[int, int], ...]
"""Pairs (restored epoch, epoch of the rollback), ascending and disjoint: the epochs between the two are rolled back."""

MAX_PAIRS = 100


def fold(known: RolledBack, to: int, epoch: int) -> RolledBack:
    """Adds a rollback that is newer than all known ones; drops those that it covers.

    Above ``MAX_PAIRS`` the oldest two become one. Epochs between them then count as rolled back too, which only a
    reader can meet that has stood still for a hundred rollbacks.
    """
    pairs = [*(pair for pair in known if pair[0] < to), (to, epoch)]
    if len(pairs) > MAX_PAIRS:
        pairs[:2] = [(pairs[0][0], pairs[1][1])]
    return tuple(pairs)


def restored(known: RolledBack, epoch: int) -> int | None:
    """None if an epoch was not rolled back, else the restored older epoch."""
    return min((to for to, rollback in known if to < epoch < rollback), default=None)
