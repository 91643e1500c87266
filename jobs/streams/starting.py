"""Which streams of a command can start: an error before Spark runs keeps only its own stream from starting."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sparkhaven.jobs.monitor.waiting import name_stream
from sparkhaven.jobs.settings.stream_file import StreamSettings, load_stream_tables
from sparkhaven.jobs.settings.stream_schema import checked_schema
from sparkhaven.store.errors import SettingsError, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.system_errors import as_ours

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NotStarted:
    """A stream file whose stream could not start, and why; ``name`` and ``table``, if they are known."""

    file: Path
    error: Exception
    name: str | None = None
    table: str = ""

    @property
    def label(self) -> str:
        """The name of the stream, else of its file."""
        return self.name or str(self.file)


def load_streams(files: Iterable[Path]) -> tuple[list[StreamSettings], list[NotStarted]]:
    """The settings of every valid file, one for each of its tables. Of files with the same stream none is used."""
    loaded: list[StreamSettings] = []
    failed: list[NotStarted] = []
    for path in dict.fromkeys(files):
        try:
            loaded += load_stream_tables(Fs(), path, os.environ)
        except (SparkhavenError, OSError) as error:
            failed.append(NotStarted(path, as_ours(error)))
    by_stream: dict[tuple[str, str], list[StreamSettings]] = {}
    for settings in loaded:
        by_stream.setdefault((settings.spec.table, settings.spec.stream), []).append(settings)
    for (table, stream), same in by_stream.items():
        if len(same) > 1:
            others = ", ".join(str(settings.file) for settings in same[:-1])
            double = SettingsError(
                f"two files describe stream {stream} of {table}",
                where=same[-1].file,
                found=f"the same in {others}",
                hint="give each stream its own name",
            )
            failed.append(NotStarted(same[-1].file, double, stream, table))
    double_files = {settings.file for same in by_stream.values() if len(same) > 1 for settings in same}
    return [settings for settings in loaded if settings.file not in double_files], failed


def try_each(
    streams: Sequence[StreamSettings], step: Callable[[StreamSettings], T]
) -> tuple[list[T], list[NotStarted]]:
    """The results of ``step`` for each stream, and the streams that it fails for."""
    results: list[T] = []
    failed: list[NotStarted] = []
    for settings in streams:
        try:
            results.append(step(settings))
        except (SparkhavenError, OSError) as error:
            name_stream(error, settings)
            failed.append(NotStarted(settings.file, as_ours(error), settings.spec.stream, settings.spec.table))
    return results, failed


def checked(fs: Fs, settings: StreamSettings) -> StreamSettings:
    """The settings, if schema and feed match; raises the first error, changes nothing."""
    checked_schema(fs, settings)
    settings.feed.check(fs)
    return settings
