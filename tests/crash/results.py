"""Runs the harness and writes what came of it: ``python -m tests.crash.results [PART ...] [--full] [--out FILE]``.

One line for each point, fault and durability mode: rounds, and rows lost, doubled, torn. The sections of the parts that
are named are renewed, the others stay. ``--full`` tries every step and every call, which takes an hour; without it one
of each.
"""

from __future__ import annotations

import argparse
import fcntl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.io.fs import Fs
from tests.crash.campaigns import (
    call_faults,
    chain_kills,
    chaos,
    cluster_breakages,
    copies,
    failed_calls,
    frame_attempts,
    histories,
    image_cuts,
    job_kills,
    kills,
    model_cuts,
    orphans,
    sleepers,
    spark_image_cuts,
    spark_sleepers,
)
from tests.crash.changes.campaign import changed_schemas
from tests.crash.disk import strace_faults
from tests.crash.disk.images import missing
from tests.crash.results_page import Line, renewed, section


@dataclass(frozen=True, slots=True)
class Part:
    """A section of the page: what it is about, and how its lines come to be (place, ``full``, rounds)."""

    title: str
    lines: Callable[[Path, bool, int], Iterator[Line]]
    why_not: Callable[[], str] = lambda: ""
    note: str = ""


PARTS = {
    "kills": Part("SIGKILL at the named steps of a commit", lambda base, full, rounds: kills(base, every=full)),
    "calls": Part("A failing call to the disk", lambda base, full, rounds: call_faults(base, every=full)),
    "schema changes": Part(
        "Changes of a schema at every moment, every reader, and a night after each",
        lambda base, full, rounds: changed_schemas(base, every=full),
    ),
    "drivers": Part("Drivers that sleep and are overtaken", lambda base, full, rounds: sleepers(base)),
    "tasks": Part("Tasks that outlive their driver", lambda base, full, rounds: orphans(base)),
    "spark drivers": Part(
        "Spark jobs that sleep and are overtaken", lambda base, full, rounds: spark_sleepers(base, 3 if full else 1)
    ),
    "spark jobs": Part(
        "Kills of a streaming job over files", lambda base, full, rounds: job_kills(base, 50 if full else 5)
    ),
    "frames": Part(
        "Tasks of frames that Spark repeats", lambda base, full, rounds: frame_attempts(base, 25 if full else 2)
    ),
    "cluster": Part(
        "A cluster that breaks under jobs", lambda base, full, rounds: cluster_breakages(base, 40 if full else 4)
    ),
    "chain": Part(
        "A table that is followed into another one", lambda base, full, rounds: chain_kills(base, 40 if full else 4)
    ),
    "copies": Part(
        "Snapshots and a mirror of a table that goes on",
        lambda base, full, rounds: copies(base, 50 if full else 5),
    ),
    "histories": Part(
        "Random histories of a night's commands, compared with a model in plain Python",
        lambda base, full, rounds: histories(base, 2000 if full else rounds),
    ),
    "model": Part("Power cuts on a model of a disk", lambda base, full, rounds: model_cuts(base)),
    "images": Part("Power cuts on real file systems", lambda base, full, rounds: image_cuts(base, rounds), missing),
    "spark images": Part(
        "Power cuts on real file systems under Spark jobs, and what other writers make of them",
        lambda base, full, rounds: spark_image_cuts(base, max(1, rounds // 4)),
        missing,
        "One file of 40 rows is a batch; the feed survives, and every job is started again after the cut. *Lost* and "
        "*doubled* rows are counted once it was through with the feed; rows that were acknowledged and not there after "
        "the cut stand in the remark, also when they came back. *Other trouble*: cuts after which the table could not "
        "be read or the query not be started; it then began anew, and its rows count no further. A cut takes only what "
        "is new: before each round all is synced once.",
    ),
    "strace": Part(
        "A system call that fails by strace under a real writer process",
        lambda base, full, rounds: failed_calls(base, every=full),
        strace_faults.missing,
    ),
    "chaos": Part(
        "A running job on a topic, beside readers", lambda base, full, rounds: chaos(base, 500 if full else 25)
    ),
}


def main(out: Path, parts: Sequence[str], *, full: bool, rounds: int) -> int:
    """Runs parts and renews their sections, line by line, so that a run which is ended keeps what it had; 1 if bad."""
    bad = False
    for name in parts:
        part = PARTS[name]
        why, lines = part.why_not(), list[Line]()
        with tempfile.TemporaryDirectory() as directory:
            if why:
                renew(out, name, lines, full=full, note=f"Not possible on this machine: {why}.")
            else:
                for line in part.lines(Path(directory), full, rounds):
                    lines.append(line)
                    renew(out, name, lines, full=full, note=part.note)
        print(name, why, *(line.counts for line in lines), flush=True)
        bad = bad or any(line.bad for line in lines)
    return int(bad)


def beside(part: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """A part in a process of its own, with the options of this one."""
    options = [argument for argument in arguments if argument not in PARTS and argument != "--beside"]
    return subprocess.Popen([sys.executable, "-m", "tests.crash.results", part, *options])


def renew(out: Path, name: str, lines: Sequence[Line], *, full: bool, note: str) -> None:
    """Writes the section of a part as far as it is known."""
    quoted = f'"{name}"' if " " in name else name
    text = section(name, PARTS[name].title, lines, f"python -m tests.crash.results {quoted}{' --full' * full}", note)
    Fs().mkdirs(out.parent)
    with out.open("a+", encoding="utf-8") as page:
        fcntl.flock(page, fcntl.LOCK_EX)  # two processes may write it, see ``--beside``
        page.seek(0)
        written = renewed(page.read(), {name: text}, [*PARTS])
        page.truncate(0)
        page.write(written)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Runs the crash harness and writes a page with its results.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(map(repr, PARTS))}; default: all")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--rounds", type=int, default=20, help="power cuts for each file system and mode, or histories")
    parser.add_argument("--beside", action="store_true", help="run the last part in a process beside the others")
    parser.add_argument("--out", type=Path, default=Path("docs/evidence/crash-results.md"))
    given = parser.parse_args()
    if strange := sorted(set(given.parts) - PARTS.keys()):
        parser.error(f"no such part: {', '.join(strange)}")
    chosen_parts = given.parts or [*PARTS]
    other = beside(chosen_parts.pop(), sys.argv[1:]) if given.beside and len(chosen_parts) > 1 else None
    codes = [main(given.out, chosen_parts, full=given.full, rounds=given.rounds)]
    sys.exit(max([*codes, other.wait()] if other else codes))
