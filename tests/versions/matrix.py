"""Releases of Spark, Python and JDK that are tried, and what came of it: ``make test-versions``.

    python -m tests.versions.matrix [--spark 4.0 ...] [--python PATH ...] [--jdk PATH ...] [--out FILE]

Each combination has an environment of its own in the user's cache: the wheel of this checkout with its extras
``spark`` and ``kafka``, and the newest release of a series. There ``tests/versions/walk.py`` does what a user does.
The page has a row for each combination; a run renews the rows of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.user_cache import cache_directory
from tests.support.installed_wheel import build_wheel
from tests.support.kafka.topics import make_topic, send
from tests.support.places import REPOSITORY
from tests.support.servers.broker import Broker
from tests.versions.walk import GOOD, READER

SPARKS = ("4.0", "4.1", "4.2", "4.3")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
JDKS = (17, 21, 25)
PAGE = REPOSITORY / "docs" / "reference" / "versions.md"
HEAD = """# Releases

What `make test-versions` has tried: ingest of files and of Kafka with a bad row, merge, `format("deephaven")` read and
written as batch and as stream, and `foreachBatch`. Batches are read by Java and by Python, each alone, and handed to
functions in Python. The jar is the same for all rows: it is compiled once, against the pyspark that this project is
developed with. *Reader* is who reads batches where a session does not choose. A row with a dash was tried before there
was a choice, and `none` stands where no frame was read whole. *Lacks* is all that does not work there, in the words of
the error.

| Spark | Python | JDK | reader | steps that work | lacks |
| --- | --- | --- | --- | --- | --- |
"""
SCHEMA = """<Table namespace="Test" name="{name}" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${{autobalance_single}}"/>
  <Column name="Day" dataType="String" columnType="Partitioning"/>
  <Column name="Id" dataType="long"/>
  <Column name="Text" dataType="String"/>
</Table>"""
STREAM = """name = "{name}"
table = "Test.Tick"
schema = "Test.Tick.schema"
[feed]
{feed}
[partition]
internal = {{ fixed = "{name}" }}
value = {{ fixed = "{day}" }}
[bad_rows]
max_rows = 1
max_fraction = 1.0
"""
_ROW = re.compile(r"\| (\S+) \| (\S+) \| (\d+) \| (\S+) \| (.*) \| (.*) \|\Z")


@dataclass(frozen=True, order=True, slots=True)
class Combination:
    """Versions as texts; ``spark`` is that of the release."""

    spark: str
    python: str
    jdk: int


@dataclass(frozen=True, slots=True)
class Java:
    """A JDK of this machine."""

    home: Path
    major: int


def javas(given: Sequence[Path]) -> list[Java]:
    """The JDKs of the machine, one of each major version."""
    found: dict[int, Java] = {}
    for home in given or sorted(Path("/usr/lib/jvm").glob("*")):
        if not (home / "bin" / "java").is_file():
            continue
        said = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True).stderr
        match = re.search(r'"(\d+)', said)
        if match and int(match[1]) in JDKS:
            found.setdefault(int(match[1]), Java(home, int(match[1])))
    return [found[major] for major in sorted(found)]


def pythons(given: Sequence[Path]) -> list[Path]:
    """The interpreters of the machine, one of each version."""
    named = (shutil.which(f"python{version}") for version in PYTHONS)
    there = {version_of(Path(name)): Path(name) for name in named if name is not None}
    own = Path(sys.executable).resolve()
    return [*given] or [path for version, path in {**there, version_of(own): own}.items() if version in PYTHONS]


def version_of(python: Path) -> str:
    """Like ``3.11``; empty for a program that does not run."""
    code = "import sys; print('{}.{}'.format(*sys.version_info))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()


def environment(python: Path, series: str, wheel: Path) -> tuple[Path, str]:
    """The interpreter of an environment with the newest release of a series, and that release."""
    place = cache_directory(os.environ) / "versions" / f"{version_of(python)}-{series}"
    inner = place / "bin" / "python"
    if not inner.is_file():
        subprocess.run([python, "-m", "venv", "--without-pip", place], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(inner), "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", f"sparkhaven[spark,kafka] @ {wheel.as_uri()}", f"pyspark=={series}.*"], check=True)
    subprocess.run([*pip, "install", "--force-reinstall", "--no-deps", str(wheel)], check=True)
    code = "from pyspark.version import __version__ as v; print(v)"
    return inner, subprocess.run([inner, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def prepare(base: Path, bootstrap: str) -> None:
    """Feeds, stream files, schemas."""
    rows = [json.dumps({"Id": number, "Text": f"t{number % 7}"}) for number in range(GOOD)]
    lines = [*rows[:100], '{"Id": "none"}', *rows[100:]]
    topic = make_topic(bootstrap, name=f"versions-{base.name}")
    send(bootstrap, topic, lines)
    for name in ("Tick", "Copy", "Each"):
        schema = SCHEMA.format(name=name)
        (base / f"Test.{name}.schema").write_text(schema)
        (base / "db" / "Schemas").mkdir(parents=True, exist_ok=True)
    feeds = {
        "files": ('type = "files"\npath = "feed/*.json"', "2026-01-02"),
        "again": ('type = "files"\npath = "feed/*.json"', "2026-01-02"),
        "kafka": (f'type = "kafka"\ntopics = ["{topic}"]\nbootstrap = "{bootstrap}"', "2026-01-04"),
    }
    for name, (feed, day) in feeds.items():
        (base / f"{name}.toml").write_text(STREAM.format(name=name, feed=feed, day=day))
    (base / "feed").mkdir()
    (base / "feed" / "one.json").write_text("\n".join(lines) + "\n")
    (base / "query").mkdir()
    given = [{"Source": "a", "Id": number, "Text": "x"} for number in range(GOOD)]
    (base / "query" / "one.json").write_text("".join(json.dumps(row) + "\n" for row in given))


def walk(python: Path, java: Java, bootstrap: str) -> dict[str, str]:
    """What each step came to."""
    with tempfile.TemporaryDirectory(prefix="versions-") as directory:
        base = Path(directory)
        prepare(base, bootstrap)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK"))}
        environ = {**kept, "JAVA_HOME": str(java.home), "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
        for name in ("Copy", "Each"):
            deploy = [str(python), "-m", "sparkhaven", "--root", str(base / "db"), "schema", "deploy"]
            subprocess.run(
                [*deploy, str(base / f"Test.{name}.schema")], env=environ, check=True, stdout=subprocess.DEVNULL
            )
        done = subprocess.run(
            [python, REPOSITORY / "tests" / "versions" / "walk.py", base],
            cwd=base,
            env=environ,
            capture_output=True,
            text=True,
            timeout=900,
        )
    steps = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not steps:
        said = (done.stderr.strip().splitlines() or ["no word"])[-1]
        steps.append({"step": "the walk", "found": said})
    if os.environ.get("VERBOSE"):
        print(done.stderr, file=sys.stderr)
    return {step["step"]: step["found"] for step in steps}


def row_of(what: Combination, steps: dict[str, str]) -> str:
    """A row of the page."""
    tried = {name: found for name, found in steps.items() if name != READER}
    works = [name for name, found in tried.items() if found == "ok"]
    lacks = [f"{name}: {found}".replace("|", r"\|") for name, found in tried.items() if found != "ok"]
    count = f"{len(works)} of {len(tried)}"
    cells = what.spark, what.python, str(what.jdk), steps.get(READER, "none"), count, "; ".join(lacks) or "nothing"
    return "| " + " | ".join(cells) + " |"


def rows_of(page: Path) -> Iterator[tuple[Combination, str]]:
    """The rows that the page has."""
    for line in page.read_text(encoding="utf-8").splitlines() if page.is_file() else ():
        if match := _ROW.match(line):
            yield Combination(match[1], match[2], int(match[3])), line


def write_page(page: Path, rows: dict[Combination, str]) -> None:
    """The page with these rows and its other ones; an older release of a series goes."""
    kept = dict(rows_of(page))
    new = {(what.spark.rsplit(".", 1)[0], what.python, what.jdk) for what in rows}
    kept = {w: line for w, line in kept.items() if (w.spark.rsplit(".", 1)[0], w.python, w.jdk) not in new}
    lines = [line for _, line in sorted({**kept, **rows}.items())]
    page.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """1 if a step of a release that has it did not work is for the reader of the page to say; 0 if all ran."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--spark", nargs="+", default=SPARKS, metavar="SERIES")
    parser.add_argument("--python", nargs="+", type=Path, default=[], metavar="PATH")
    parser.add_argument("--jdk", nargs="+", type=Path, default=[], metavar="HOME")
    parser.add_argument("--out", type=Path, default=PAGE)
    given = parser.parse_args()
    rows: dict[Combination, str] = {}
    with tempfile.TemporaryDirectory(prefix="versions-") as directory:
        base = Path(directory)
        (base / "wheel").mkdir()
        wheel = build_wheel(base / "wheel")
        with Broker(Fs(), base / "broker") as broker:
            for python in pythons(given.python):
                for series in given.spark:
                    inner, release = environment(python, series, wheel)
                    for java in javas(given.jdk):
                        what = Combination(release, version_of(python), java.major)
                        rows[what] = row_of(what, walk(inner, java, broker.bootstrap))
                        print(rows[what], flush=True)
                        write_page(given.out, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
