"""The result of a merge of one date.

How long each phase of a merge takes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.merges.merge_records import ColumnCorrection
from sparkhaven.store.merges.merge_run import MergePhase

PhaseTimes = tuple[tuple[MergePhase, int], ...]  # milliseconds, in the order of the phases


class PhaseWatch:
    """Measures phases that follow each other, by a clock that no change of the time moves."""

    def __init__(self) -> None:
        self._times: list[tuple[MergePhase, int]] = []

    @property
    def times(self) -> PhaseTimes:
        """The phases that have ended well."""
        return tuple(self._times)

    @contextmanager
    def phase(self, phase: MergePhase) -> Iterator[None]:
        """Measures the body, if it raises nothing."""
        begun = time.monotonic()
        yield
        self._times.append((phase, round((time.monotonic() - begun) * 1000)))


class MergeOutcome(StrEnum):
    """What a merge or import does or did with a date.

    filled: it had no rows, and got an empty location; unchanged: the same rows were imported before.
    """

    MERGED = "merged"
    SUPPLEMENT = "supplement"
    REWRITTEN = "rewritten"
    RESUMED = "resumed"
    NOTHING = "nothing"
    IMPORTED = "imported"
    REPLACED = "replaced"
    UPSERTED = "upserted"
    UNCHANGED = "unchanged"
    EMPTY = "empty"
    FILLED = "filled"
    PLANNED = "planned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class DateResult:
    """The result of one date.

    ``phase``: the last finished one, of a failed date the one that failed. ``destinations``: (internal partition, rows)
    that this run wrote. ``waiting`` rows are committed but not synced, and left out.
    ``sort``: the order inside groups; ``format``: that of a planned or done merge. ``clean_error``: published, but
    files of a merge could not be removed. ``drops``: columns that a command dropped, with the rows that had values.
    ``left_out``: rows that a rule left out, ``identical`` of them equal to a row that was kept; and ``withdrawn`` ones.
    ``intraday``: where rows were given that are not intraday, those of the date that are, and stay there.
    ``distribution``: how the partitions of a planned or done merge were chosen.
    ``corrections``: of columns, by command.
    ``given``: of an import, rows that were given, and files of a tree that have them. ``digests`` of its columns.
    ``phase_ms``: milliseconds of each phase that this run has finished; small dates of one task share them.
    """

    value: str
    outcome: MergeOutcome
    phase: str
    seconds: float
    rows_in: int = 0
    rows_out: int = 0
    destinations: tuple[tuple[str, int], ...] = ()
    generation: int = 0
    pieces: int = 1
    error: SparkhavenError | OSError | None = None
    waiting: int = 0
    sort: tuple[str, ...] = ()
    clean_error: SparkhavenError | OSError | None = None
    format: str | None = None
    drops: tuple[tuple[str, int], ...] = ()
    left_out: int = 0
    withdrawn: int = 0
    identical: int = 0
    distribution: str | None = None
    corrections: tuple[ColumnCorrection, ...] = ()
    phase_ms: PhaseTimes = ()
    intraday: int = 0
    given: tuple[int, int] = (0, 0)
    digests: Mapping[str, str] = field(default_factory=dict)

    @property
    def date(self) -> str:
        """The partition value of the date."""
        return self.value
