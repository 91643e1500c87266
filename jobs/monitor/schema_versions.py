"""The versions of a table's schema: what each has changed, and when rows were written by it.

Times are as far as locations and merges tell: a damaged record tells nothing, ``verify`` reports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from sparkhaven.jobs.monitor.texts import iso_time
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.history import load_history as load_merges
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed, load_history
from sparkhaven.store.schema.deployed.history import Retired, Version, recorded_schema, retired_columns
from sparkhaven.store.schema.deployed.schema_changes import SchemaChange, compare


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version. ``ids``: of its columns by name; ``gone``: those of the version before that it drops.

    ``first_ms``, ``last_ms``: when rows are known to be written by it. ``deployed_ms``: of the newest version, when its
    file was deployed. ``change``: against the version before; the first adds all of its columns.
    """

    version: int
    sha256: str
    ids: Mapping[str, int]
    change: SchemaChange
    gone: Mapping[str, int] = field(default_factory=dict)
    first_ms: int | None = None
    last_ms: int | None = None
    deployed_ms: int | None = None

    def to_json(self) -> dict[str, object]:
        """What ``schema history --json`` prints of it."""
        times = {"first_rows": self.first_ms, "last_rows": self.last_ms}
        return {
            "version": self.version,
            **{name: None if time_ms is None else iso_time(time_ms) for name, time_ms in times.items()},
            "columns": list(self.ids),
            "ids": dict(self.ids),
            "sha256": self.sha256[:16],
            **self.change.to_json(),
            **({} if self.version == 1 else {"dropped_ids": dict(self.gone)}),
        }


def schema_versions(place: TablePlace) -> tuple[list[SchemaVersion], dict[int, Retired]]:
    """Every version that was deployed, in order, and the columns that are gone by their ids."""
    versions = load_history(place)[: load_deployed(place).version]
    uses, stat = _uses(place), place.fs.stat(place.schema)
    deployed_ms = None if stat is None else stat.mtime_ns // 10**6
    facts = [
        _version(versions[: number + 1], uses, deployed_ms if number + 1 == len(versions) else None)
        for number in range(len(versions))
    ]
    return facts, retired_columns(versions)


def _version(
    versions: Sequence[Version], uses: Mapping[int, tuple[int, int]], deployed_ms: int | None
) -> SchemaVersion:
    newest = versions[-1]
    ids = {column.name: column.id for column in newest.columns}
    first_ms, last_ms = uses.get(newest.version, (None, None))
    times = first_ms, last_ms, deployed_ms
    if len(versions) == 1:
        return SchemaVersion(newest.version, newest.sha256, ids, SchemaChange(added=tuple(ids)), {}, *times)
    before = versions[-2]
    names = {number: name for name, number in ids.items()}
    rename = {c.name: names[c.id] for c in before.columns if names.get(c.id, c.name) != c.name}
    kind = TableName("Any", "Any")
    change = compare(recorded_schema(kind, newest), recorded_schema(kind, before), versions[:-1], rename)
    gone = {column.name: column.id for column in before.columns if column.name in change.dropped}
    return SchemaVersion(newest.version, newest.sha256, ids, change, gone, *times)


def _uses(place: TablePlace) -> dict[int, tuple[int, int]]:
    """First and last time (ms) at which rows are known to be written, by version."""
    uses: dict[int, tuple[int, int]] = {}
    for version, time_ms in _times(place):
        first, last = uses.get(version, (time_ms, time_ms))
        uses[version] = min(first, time_ms), max(last, time_ms)
    return uses


def _times(place: TablePlace) -> Iterator[tuple[int, int]]:
    for stream in list_streams(place):
        with suppress(SparkhavenError, OSError):
            for location in load_stream(place.of_stream(stream)).locations.values():
                if location.time_ms:
                    yield location.schema_version, location.time_ms
    for value in all_values(place):
        with suppress(SparkhavenError, OSError):
            for record in load_merges(place, value).complete:
                yield record.schema_version, record.time_ms
