"""The merges of a table, as its merge records tell them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sparkhaven.store.merges.history import load_history
from sparkhaven.store.merges.merge_records import MergeOutput, MergeRecord, all_values
from sparkhaven.store.places import TablePlace


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
