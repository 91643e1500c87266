"""The streams of one stream file: one for each table that its feed has rows of. They start, run and end together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sparkhaven.jobs.monitor.waiting import name_stream
from sparkhaven.jobs.settings.stream_file import StreamSettings
from sparkhaven.jobs.streams.starting import NotStarted
from sparkhaven.jobs.streams.stream_run import StreamRun
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.epochs.state.joint_positions import furthest_back
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.schema.deployed.deploy import user_tables

T = TypeVar("T", StreamSettings, StreamRun)


@dataclass(slots=True)
class StreamGroup:
    """The runs of one stream file, in the order in which they commit. An error is of all of them."""

    runs: list[StreamRun]

    @property
    def first(self) -> StreamRun:
        return self.runs[0]

    @property
    def name(self) -> str:
        return self.first.name

    @property
    def error(self) -> Exception | None:
        return next((run.error for run in self.runs if run.error is not None), None)

    @error.setter
    def error(self, error: Exception | None) -> None:
        if error is not None:
            name_stream(error, self.first.settings)
        for run in self.runs:
            run.error = error

    @property
    def epoch(self) -> int:
        """A number that rises with each epoch of one of them."""
        return sum(run.epoch for run in self.runs)

    @property
    def state(self) -> StreamState:
        """What all tables have of the feed."""
        return furthest_back([run.state for run in self.runs])


def grouped(runs: Iterable[StreamRun]) -> list[StreamGroup]:
    """The runs by stream file."""
    by_file: dict[Path, list[StreamRun]] = {}
    for run in runs:
        by_file.setdefault(run.settings.file, []).append(run)
    return [StreamGroup(of_file) for of_file in by_file.values()]


def whole_files(streams: Sequence[T], failed: Sequence[NotStarted]) -> list[T]:
    """Those of files of which no stream has failed: a feed is not ingested into some of its tables."""
    broken = {stream.file for stream in failed}
    return [stream for stream in streams if _file_of(stream) not in broken]


def _file_of(stream: StreamSettings | StreamRun) -> Path:
    return stream.file if isinstance(stream, StreamSettings) else stream.settings.file


def fed_places(fs: Fs, layout: Layout, settings: StreamSettings) -> list[StreamPlace]:
    """The streams of all tables of a feed."""
    stream = settings.spec.stream
    return [StreamPlace(fs, layout, TableName.parse(table), stream) for table in settings.spec.fed_tables]


def joint_state(fs: Fs, layout: Layout, settings: StreamSettings) -> StreamState | None:
    """What all tables of a feed have of it; None where no stream has files. Raises what ``load_stream`` raises."""
    places = fed_places(fs, layout, settings)
    states = [load_stream(place) for place in places if place.stream in list_streams(place)]
    return furthest_back(states) if states else None


def left_tables(fs: Fs, layout: Layout, group: StreamGroup) -> list[str]:
    """Tables that the last run of the stream has fed, and that its file does not name any more."""
    routes, last = group.first.settings.spec.routes, {run.state.last_query for run in group.runs} - {None}
    if routes is None or not last:
        return []
    left = []
    for table in user_tables(fs, layout):
        place = StreamPlace(fs, layout, table, group.name)
        has_run = str(table) not in routes.names and fs.stat(place.stream_log) is not None
        if has_run and load_stream(place).last_query in last:
            left.append(str(table))
    return left
