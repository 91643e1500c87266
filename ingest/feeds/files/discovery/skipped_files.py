"""What lies in a feed of files and is not ingested: how many by reason, and some by name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from sparkhaven.ingest.feeds.base import PassedFiles
from sparkhaven.store.managed_trees.sink_log import SINK_LOG

OLDER_NAMED = 5  # newcomers too old to be taken that a report names; all are counted
SHOWN = 5  # names of each kind that a report has; all are counted
HIDDEN, UNFINISHED, OTHER, NO_FILE = "hidden", "unfinished", "other name", "no regular file"
GONE = f"missing, though committed by {SINK_LOG}"
SAME = "another name of what is ingested"
NO_MATCH = "no file matches"


@dataclass(slots=True)
class Passed:
    """What is not taken: how many by reason, and the first paths of each."""

    counts: Counter[str] = field(default_factory=Counter)
    names: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, path: str, count: int = 1) -> None:
        """One more, or so many; 0: the path is no file."""
        self.counts[reason] += count
        shown = self.names.setdefault(reason, [])
        if len(shown) < SHOWN:
            shown.append(path)

    def merge(self, other: Passed) -> None:
        self.counts.update(other.counts)
        for reason, names in other.names.items():
            shown = self.names.setdefault(reason, [])
            shown.extend(names[: SHOWN - len(shown)])

    def to_json(self) -> dict[str, PassedFiles]:
        return {reason: {"count": count, "first": self.names[reason]} for reason, count in sorted(self.counts.items())}
