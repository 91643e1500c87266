"""Whether a later merge of a date shows exactly the rows that an earlier one and intraday had."""

from __future__ import annotations

from sparkhaven.store.merges.history import totals
from sparkhaven.store.merges.merge_records import InputKey, MergeRecord


def keeps_rows(before: MergeRecord | None, after: MergeRecord) -> bool:
    """Whether a reader of ``before`` (None: of intraday alone) finds its rows, and no others, in ``after``.

    Of rows that were merged since only their number is compared: a rule that leaves some out gives fewer. Where
    nothing was merged since, the digests of all columns decide. In doubt it is False.
    """
    old, new = _taken(before), _taken(after)
    if old == new:
        return before is not None and totals(before) == totals(after)
    if before is not None and (before.corrections, before.deletions) != (after.corrections, after.deletions):
        return False
    if before is None and after.changed_by_command:
        return False
    came = {key: count - old.get(key, 0) for key, count in new.items()}
    if any(count < 0 for count in came.values()) or not old.keys() <= new.keys():
        return False
    if any(count and taken.epoch < 0 for taken in after.inputs if (count := came[taken.key])):
        return False  # imported: no epoch has these rows
    return totals(after)[0] == totals(before)[0] + sum(came.values())


def _taken(record: MergeRecord | None) -> dict[InputKey, int]:
    """Rows of each location that were merged, and not withdrawn before."""
    return {taken.key: taken.rows - taken.withdrawn for taken in record.inputs} if record is not None else {}
