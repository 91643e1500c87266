"""A directory that is not the repository, from which jobs are submitted with the zip of our packages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pyspark

from demo.feed import json_line, rows
from sparkhaven.jobs.session.fast_start import python_launcher
from sparkhaven.jobs.session.submit_zip import write_zip
from sparkhaven.store.io.fs import Fs
from tests.support.places import REPOSITORY
from tests.support.spark.quick_java import quick_java

SUBMIT = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
ROWS = 40
PATIENCE = 240


@dataclass(frozen=True, slots=True)
class Place:
    """A feed, a stream file and the zip."""

    base: Path
    stream: Path
    environ: dict[str, str]
    jobs: list[subprocess.Popen[str]] = field(default_factory=list)

    @classmethod
    @contextmanager
    def of(cls, base: Path) -> Iterator[Place]:
        """One in an existing empty directory; no job outlives the body."""
        place = cls.make(base)
        try:
            yield place
        finally:
            for job in place.jobs:
                with suppress(ProcessLookupError):
                    os.killpg(job.pid, signal.SIGKILL)
                job.communicate()

    @classmethod
    def make(cls, base: Path) -> Place:
        """One in an existing empty directory."""
        write_zip(base / "sparkhaven.zip")
        (base / "feed").mkdir()
        stream = base / "flights.toml"
        text = (REPOSITORY / "conf/streams/flights.toml").read_text()
        stream.write_text(text.replace("../schemas", str(REPOSITORY / "conf/schemas")))
        (base / "spark").mkdir()
        (base / "spark" / "spark-defaults.conf").write_text("spark.master local[2]\nspark.ui.enabled false\n")
        environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARKHAVEN_ROOT")}
        programs = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
        ours = {"PYSPARK_PYTHON": python_launcher(Fs(), os.environ), "PATH": programs}
        return cls(base, stream, {**environ, **ours, **quick_java(), "FLIGHTS_FEED": str(base / "feed")})

    @property
    def zip(self) -> str:
        """The packages for --py-files."""
        return str(self.base / "sparkhaven.zip")

    @property
    def conf(self) -> Path:
        """A directory with settings of Spark: two tasks at a time, no pages."""
        return self.base / "spark"

    @property
    def root(self) -> Path:
        """The database."""
        return self.base / "db"

    def put(self, number: int, *extra: str) -> None:
        """A further file of the feed: ``ROWS`` flights."""
        self.put_together([number], *extra)

    def put_together(self, numbers: Sequence[int], *extra: str, width: int = 0) -> None:
        """Such files at one moment; their lines are at least ``width`` wide, which blanks fill."""
        paths = []
        for number in numbers:
            lines = [json_line(row) for row in islice(rows(), number * ROWS, (number + 1) * ROWS)]
            wide = [line.rstrip("\n").ljust(width) + "\n" for line in lines]
            path = self.base / "feed" / f"{number}.json"
            path.with_name(f".{path.name}").write_text("".join([*wide, *extra]), encoding="utf-8")
            paths.append(path)
        for path in paths:
            path.with_name(f".{path.name}").rename(path)

    def submit(
        self, entry: str, *words: str, options: tuple[str, ...] = (), log: Path | None = None
    ) -> subprocess.Popen[str]:
        """A job under spark-submit, with a file for its results; its outputs go to ``log``, or into pipes.

        It leads a process group of its own: its JVM and its Python end together.
        """
        defaults = str(self.conf / "spark-defaults.conf")
        command = [
            SUBMIT,
            "--properties-file",
            defaults,
            "--py-files",
            self.zip,
            *options,
            str(REPOSITORY / "jobs" / f"{entry}.py"),
        ]
        with ExitStack() as opened:
            output = subprocess.PIPE if log is None else opened.enter_context(log.open("a", encoding="utf-8"))
            job = subprocess.Popen(
                [*command, "--root", str(self.root), *words, "--json", "--result", str(self.base / f"{entry}.result")],
                cwd=self.base,
                env=self.environ,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        self.jobs.append(job)
        return job

    def ended(self, job: subprocess.Popen[str], entry: str) -> tuple[int, list[dict[str, Any]], str]:
        """Exit code, lines of the file of its results, what it has printed."""
        out, _ = job.communicate(timeout=PATIENCE)
        lines = (self.base / f"{entry}.result").read_text(encoding="utf-8").splitlines()
        return job.returncode, [json.loads(line) for line in lines], out
