"""What came of a chaos campaign."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from tests.crash.chaos.reader import Finding


@dataclass(slots=True)
class Tally:
    """Rounds of one fault, and in how many of them something was wrong."""

    rounds: int = 0
    kills: int = 0
    lost: int = 0
    doubled: int = 0
    torn: int = 0
    other: int = 0

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Rounds with something lost, doubled, torn, or wrong in another way."""
        return self.lost, self.doubled, self.torn, self.other

    def note(self, kills: int, found: Sequence[Finding]) -> None:
        """Counts a round."""
        self.rounds += 1
        self.kills += kills
        for kind in {kind for kind, _ in found}:
            setattr(self, kind, getattr(self, kind) + 1)

    def add(self, other: Tally) -> None:
        """Counts another's rounds too."""
        for name in ("rounds", "kills", "lost", "doubled", "torn", "other"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class Campaign:
    """What came of it: by fault, at the end, and by what became of Spark's checkpoint (rounds)."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    end: Tally = field(default_factory=Tally)
    checkpoints: dict[str, int] = field(default_factory=dict)
    kills: int = 0
    rows: int = 0
    epochs: int = 0
    looks: int = 0

    @property
    def bad(self) -> int:
        """Rounds in which something was wrong, and the end."""
        return sum(sum(tally.counts) for tally in [*self.tallies.values(), self.end])

    @property
    def rounds(self) -> int:
        """All of them."""
        return sum(tally.rounds for tally in self.tallies.values())

    def note(self, fault: str, kills: int, found: Sequence[Finding]) -> None:
        """Counts a round."""
        self.kills += kills
        self.tallies.setdefault(fault, Tally()).note(kills, found)

    def add(self, other: Campaign) -> None:
        """Another campaign's counts, added to these."""
        for fault, tally in other.tallies.items():
            self.tallies.setdefault(fault, Tally()).add(tally)
        self.end.add(other.end)
        for kind, count in other.checkpoints.items():
            self.checkpoints[kind] = self.checkpoints.get(kind, 0) + count
        for name in ("kills", "rows", "epochs", "looks"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_json(self) -> str:
        """All of it as text."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Campaign:
        """What ``to_json`` has written."""
        value = json.loads(text)
        tallies = {fault: Tally(**tally) for fault, tally in value["tallies"].items()}
        return cls(**{**value, "tallies": tallies, "end": Tally(**value["end"])})

    def table(self) -> str:
        """One line a fault."""
        lines = [f"{'fault':56} rounds  kills   lost  doubled   torn  other"]
        for fault, t in [*sorted(self.tallies.items()), ("at the end", self.end)]:
            lines.append(f"{fault:56} {t.rounds:6} {t.kills:6} {t.lost:6} {t.doubled:8} {t.torn:6} {t.other:6}")
        said = ", ".join(f"{kind} {count}" for kind, count in sorted(self.checkpoints.items())) or "never touched"
        lines.append(f"Spark's checkpoint: {said}")
        lines.append(f"{self.kills} kills, {self.rows:,} rows, {self.epochs:,} epochs, {self.looks:,} snapshots read")
        return "\n".join(lines)
