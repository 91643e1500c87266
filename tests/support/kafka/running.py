"""A stream over a topic that runs beside a test, as it does in the command."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console

from sparkhaven.jobs.settings.stream_file import load_stream_file
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.jobs.streams.runners import Runner
from sparkhaven.jobs.streams.stream import Application, RunOptions, keep_one, look_at_source, open_stream
from sparkhaven.jobs.streams.stream_group import StreamGroup
from sparkhaven.jobs.streams.stream_run import StreamRun
from sparkhaven.readers import open_table
from sparkhaven.store.errors import TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from tests.support.kafka.ticks import stream_file

PATIENCE = 300.0


@contextmanager
def running(runner: Runner, base: Path, bootstrap: str, topic: str) -> Iterator[StreamRun]:
    """A stream in a thread, restarts included, until the body ends."""
    fs, layout, stop = Fs(), Layout(base / "db"), threading.Event()
    settings = load_stream_file(fs, stream_file(base, bootstrap, f'topics = ["{topic}"]'), {})
    progress = Progress(console=Console(quiet=True))
    with ExitStack() as opened:
        run = open_stream(fs, layout, settings, opened, progress)
        look_at_source(StreamGroup([run]), opened, progress, RunOptions())
        app = Application(fs, layout, runner, RunOptions(), progress, stop)
        thread = threading.Thread(target=keep_one, args=(app, StreamGroup([run])))
        thread.start()
        try:
            yield run
        finally:
            stop.set()
            thread.join(PATIENCE)
        assert not thread.is_alive()


def wait_for(what: Callable[[], bool], run: StreamRun) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, (run.error, run.log.state.offsets)
        time.sleep(0.1)


def count(base: Path) -> int:
    """Rows of the stream's table."""
    try:
        return open_table(base / "db", "Test.Tick").count()
    except TableNotFoundError:
        return 0
