"""What waits at the source of a stream: its amount, and what of it a person should look at, in words."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from sparkhaven.ingest.feeds.base import PassedFiles, Remote, Trial, Waiting, WaitingCounts
from sparkhaven.ingest.spec.stream_spec import DAY_S, Contract
from sparkhaven.jobs.monitor.epochs import field_words
from sparkhaven.jobs.monitor.source_watch import SourceState, SourceWatch
from sparkhaven.jobs.settings.stream_file import StreamSettings, name_stream
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import RetryableFeedError, SparkhavenError, counted
from sparkhaven.store.io.fs import Fs


def ask_source(fs: Fs, settings: StreamSettings, state: StreamState | None, patience: float) -> Waiting:
    """What waits for a stream. The RetryableFeedError of a server that does not answer says how long it was asked."""
    try:
        return settings.feed.waiting(fs, state, patience)
    except SparkhavenError as error:
        name_stream(error, settings)
        if isinstance(error, RetryableFeedError) and settings.feed.remote() is not None:
            error.hint = f"{error.hint}. It had {patience:g} s to answer: `--wait` gives it more"
        raise


def watch_ends(
    remote: Remote,
    positions: Callable[[], Mapping[str, int]],
    on_change: Callable[[SourceState], None],
    clock: Callable[[], float] = time.monotonic,
) -> SourceWatch:
    """A watch over the topic partitions that have a position."""
    return SourceWatch(lambda: remote.ends(tuple(positions())), clock, on_change)


def older_line(count: int, paths: Sequence[str], max_file_age_s: float) -> str:
    """New files that are too old to be ingested, the newest of them by name, and what to do."""
    names = ", ".join(paths[-count:]) + (f" and {count - len(paths)} more" if count > len(paths) else "")
    days = max_file_age_s / DAY_S
    return (
        f"{count:,} new files are older than max_file_age ({days:g} d) and are not ingested: {names}."
        " Touch a file to have it ingested"
    )


def remarks_of(waiting: WaitingCounts, max_file_age_s: float) -> list[str]:
    """What of the waiting input a person should look at: files too old to be taken, and remarks of the feed."""
    count = waiting.get("older_files", 0)
    older = [older_line(count, waiting["older"], max_file_age_s)] if count else []
    return [*older, *waiting.get("remarks", ())]


def passed_lines(passed: Mapping[str, PassedFiles]) -> list[str]:
    """The files that a feed does not ingest, a line for each reason, with the first names."""
    lines = []
    for reason, files in passed.items():
        more = files["count"] - len(files["first"])
        names = ", ".join(files["first"]) + (f" and {more:,} more" if more > 0 else "")
        lines.append(
            f"{counted(files['count'], 'file')}, {reason}: {names}" if files["count"] else f"{reason}: {names}"
        )
    return lines


def other_fields(trial: Trial | None, contract: Contract) -> list[str]:
    """What the first rows that wait have beside the columns, and what they lack, as a dry run says it."""
    if trial is None or contract == "discard-value":
        return []
    lines = [f"fields without a column: {field_words(dict(trial.ignored))}"] if trial.ignored else []
    return lines + ([f"no field for columns: {field_words(dict(trial.absent))}"] if trial.absent else [])
