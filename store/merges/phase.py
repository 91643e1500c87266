"""Phases of a merge, in their order."""

from __future__ import annotations

from enum import StrEnum


class MergePhase(StrEnum):
    """The phases of a merge of one date. Its record has the last finished one of those that are stored."""

    PLAN = "plan"
    STAGE = "stage"
    SYNC = "sync"
    CHECK = "check"
    PUBLISH = "publish"
    INDEX = "index"
    RECORD = "record"
    CLEAN = "clean"

    def reached(self, phase: MergePhase) -> bool:
        """Whether this phase is the given one or a later one."""
        return _ORDER.index(self) >= _ORDER.index(phase)


_ORDER = tuple(MergePhase)
