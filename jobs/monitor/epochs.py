"""The epochs of a stream: ``EpochEntry`` as the commit log has them, and what is shown of them.

``list_epochs`` collects them. They are those between the rollback floor and now, and those rolled back since.

The merges of a table, as its merge records tell them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields

from sparkhaven.jobs.monitor.texts import iso_time
from sparkhaven.store.epochs.reading.stream_state import EpochEntry
from sparkhaven.store.epochs.state.log_values import add_count
from sparkhaven.store.errors import counted
from sparkhaven.store.merges.history import load_history
from sparkhaven.store.merges.merge_records import MergeOutput, MergeRecord, all_values
from sparkhaven.store.places import TablePlace

RATE_MS = 60_000
_NAMES = tuple(field.name for field in fields(EpochEntry) if field.name != "seconds")


def epoch_json(entry: EpochEntry) -> dict[str, object]:
    """An epoch as JSON: what its record has, its time as text, messages, and offsets as [place, first, stop]."""
    spans = {
        name: [[span.place, span.start, span.stop] for span in parts]
        for name, parts in (("ranges", entry.ranges), ("gaps", entry.gaps))
    }
    texts = {"time": iso_time(entry.time_ms, "milliseconds"), "undoes": list(entry.undoes)}
    return {name: getattr(entry, name) for name in _NAMES} | {**texts, "messages": entry.messages, **spans}


def counts_of(epochs: Iterable[EpochEntry]) -> dict[str, int]:
    """The counts of all batches that were not rolled back, together."""
    counts: dict[str, int] = {}
    for entry in epochs:
        for name, rows in (entry.counts if entry.live else {}).items():
            add_count(counts, name, rows)
    return counts


def rates(epochs: Sequence[EpochEntry], partitions: Iterable[str]) -> dict[str, float]:
    """Offsets per second of these topic partitions in the minute before the newest epoch, which needs two epochs."""
    live = [entry for entry in epochs if entry.is_commit]
    last = [entry for entry in live if entry.time_ms >= live[-1].time_ms - RATE_MS]
    passed = (last[-1].time_ms - last[0].time_ms) / 1000 if last else 0.0
    if not passed:
        return {}
    taken: Counter[str] = Counter()
    for entry in last[1:]:
        for part in entry.ranges:
            taken[f"{part.topic}/{part.partition}"] += part.messages
    return {partition: round(taken[partition] / passed, 3) for partition in partitions if "/" in partition}


def field_words(counts: Mapping[str, int]) -> str:
    """Fields, or columns, with their number of rows, the most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} ({counted(rows, 'row')})" for name, rows in ordered)


@dataclass(slots=True)
class Merges:
    """Totals of merge records. By date ``written``: bytes of columns of all merges; ``used``: of history in use."""

    newest: MergeRecord | None = None
    results: dict[str, int] = field(default_factory=lambda: {"merged": 0, "unfinished": 0})
    phases: dict[str, str] = field(default_factory=dict)  # of unfinished dates
    written: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)


def read_merges(place: TablePlace) -> Merges:
    """Totals of the merge records of a table; raises the errors of reading one."""
    totals, newest_ms = Merges(), -1
    for date in all_values(place):
        history = load_history(place, date)
        if history.last is None:
            continue
        totals.results["merged" if history.last.complete else "unfinished"] += 1
        if not history.last.complete:
            totals.phases[date] = history.last.phase
        earlier: set[str] = set()
        for record in history.complete:
            totals.written[date] = totals.written.get(date, 0) + _bytes(record, earlier)
            earlier |= {output.internal for output in record.outputs}
            if (ended := record.published_ms) >= newest_ms:
                totals.newest, newest_ms = record, ended
        if history.current is not None:
            totals.used[date] = _bytes(history.current, set())
    return totals


def _bytes(record: MergeRecord, earlier: set[str]) -> int:
    outputs = (output for output in record.outputs if output.internal not in earlier)
    return sum(state.size for output in outputs for state in output.files.values())


def all_merges(place: TablePlace) -> Iterator[MergeRecord]:
    """Every merge that is recorded, by date and generation, the unfinished ones too."""
    for date in all_values(place):
        yield from load_history(place, date).records


def own_outputs(record: MergeRecord) -> list[MergeOutput]:
    """The outputs that a merge itself has written, without those that it has kept of earlier ones."""
    own = {destination.internal for destination in record.run.destinations} or {o.internal for o in record.outputs}
    return [output for output in record.outputs if output.internal in own]
