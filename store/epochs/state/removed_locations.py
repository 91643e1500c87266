"""One location of a stream that was truncated or deleted: a tombstone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sparkhaven.store.epochs.state.log_records import decode_key
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.layout import LocationKey

DOOMED = ".doomed-"  # prefix of a directory that was moved away and not yet unlinked


def aside_name(directory: str, since: int) -> str:
    """The name of a location's directory once it was moved away; ``since``: the epoch that made the location."""
    return f"{DOOMED}{directory}-{since}"


_KEYS = {"at", "since", "rows", "phase", "epoch", "proof", "time"}


class RemovalPhase(StrEnum):
    TRUNCATE = "truncate"
    DELETE = "delete"


PHASES = tuple(RemovalPhase)


@dataclass(frozen=True, slots=True)
class Removal:
    """One location truncated or deleted; ``since`` and ``made_ms`` distinguish it from others of the same key.

    ``epoch`` and ``generation`` are those of the stream at that time. 0 = unknown, of ``made_ms`` and ``generation``.
    """

    key: LocationKey
    since: int
    rows: int
    phase: RemovalPhase
    epoch: int
    proof: Mapping[str, Any] = field(default_factory=dict)
    time_ms: int = 0
    made_ms: int = 0
    generation: int = 0

    def means(self, location: LocationState) -> bool:
        """Whether it is this location, not one recreated under its key.

        A log that was restored from an older copy reuses epochs, but not at the same time.
        """
        times = {self.made_ms, location.made_ms} - {0}
        return (self.key, self.since) == (location.key, location.since) and len(times) < 2


@dataclass(frozen=True, slots=True)
class Named:
    """The newest epoch and generation of a stream in some of its removals, else 0.

    The log is written first: a log with lower numbers is older than the removals.
    """

    epoch: int = 0
    generation: int = 0

    def __or__(self, other: Named) -> Named:
        return Named(max(self.epoch, other.epoch), max(self.generation, other.generation))

    @staticmethod
    def by(removals: Iterable[Removal]) -> Named:
        epoch = generation = 0
        for removal in removals:
            epoch, generation = max(epoch, removal.epoch), max(generation, removal.generation)
        return Named(epoch, generation)


def to_json(removal: Removal) -> dict[str, Any]:
    more = {"made": removal.made_ms, "generation": removal.generation}
    return {name: number for name, number in more.items() if number} | {
        "at": [removal.key.internal, removal.key.value],
        "since": removal.since,
        "rows": removal.rows,
        "phase": removal.phase,
        "epoch": removal.epoch,
        "proof": dict(removal.proof),
        "time": removal.time_ms,
    }


def from_json(value: Mapping[str, Any]) -> Removal:
    """The inverse; KeyError, TypeError or ValueError where a part is missing or wrong."""
    return Removal(
        decode_key(value["at"]),
        int(value["since"]),
        int(value["rows"]),
        RemovalPhase(value["phase"]),
        int(value["epoch"]),
        dict(value["proof"]),
        int(value["time"]),
        int(value.get("made", 0)),
        int(value.get("generation", 0)),
    )


def named_in_json(values: Iterable[Mapping[str, Any]]) -> Named:
    """What removals name of the stream, without making them: ValueError where one has other keys or types."""
    epochs, generations = [0], [0]
    for value in values:
        if not value.keys() >= _KEYS or value["phase"] not in PHASES:
            raise ValueError("a removal with other keys")
        epochs.append(value["epoch"])
        generations.append(value.get("generation", 0))
    if {*map(type, epochs), *map(type, generations)} != {int}:
        raise ValueError("a removal with other types")
    return Named(max(epochs), max(generations))
