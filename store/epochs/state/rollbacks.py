"""Which epochs of a stream were rolled back, in a form that stays small however long the stream lives."""

from __future__ import annotations

RolledBack = tuple[tuple[int, int], ...]
"""Pairs (epoch gone back to, epoch of the rollback), ascending and apart: the epochs between the two are no more."""

MAX_PAIRS = 100


def fold(known: RolledBack, to: int, epoch: int) -> RolledBack:
    """Adds a rollback that is newer than all known ones; those that it covers go.

    Above ``MAX_PAIRS`` the oldest two become one. Epochs between them then count as rolled back too, which only a
    reader can meet that has stood still for a hundred rollbacks.
    """
    pairs = [*(pair for pair in known if pair[0] < to), (to, epoch)]
    if len(pairs) > MAX_PAIRS:
        pairs[:2] = [(pairs[0][0], pairs[1][1])]
    return tuple(pairs)


def restored(known: RolledBack, epoch: int) -> int | None:
    """What remains of an epoch: None if it stands, else the older epoch whose rows do."""
    return min((to for to, rollback in known if to < epoch < rollback), default=None)
