"""Pages as sessions: what a page shows as ``console`` is run, and what comes out is compared with what the page shows.

In a ``console`` block a line that begins with ``$`` is a command, and the lines after it are its standard output; of a
command of ours that fails also its error. ``…`` stands for what varies: a line of its own for any lines, inside of a
line for any text. A block below ``<!-- file: NAME -->`` is a file that the page asks for. Pages that are run in one
place see what the pages before them left.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ANY = "…"
FENCE = re.compile(r"^```(\w*)\s*$")
FILE = re.compile(r"^<!-- file: (\S+) -->$")
ERROR = "sparkhaven: "
PATIENCE = 900
PYTHON = shlex.quote(sys.executable)
PROGRAM = f"{PYTHON} -m sparkhaven.jobs.cli.main"


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, its lines, the line of the page at which they begin, the file that it is."""

    language: str
    lines: tuple[str, ...]
    at: int
    file: str = ""


@dataclass(slots=True)
class Step:
    """One command of a page, what the page shows for it, and where: lines ``at`` to ``end`` of the page."""

    command: str
    expected: list[str]
    at: int

    @property
    def end(self) -> int:
        return self.at + len(self.expected)


@dataclass(slots=True)
class Session:
    """A directory in which commands are run one after the other, as in a shell; exported names stay.

    ``program``: what the shell runs as ``sparkhaven``, with its first words. Default: the command of this environment.
    """

    base: Path
    environ: dict[str, str] = field(default_factory=dict)
    program: str = PROGRAM

    def __post_init__(self) -> None:
        programs = self.base / ".programs"
        programs.mkdir(parents=True)
        for name, line in (("sparkhaven", self.program), ("python", PYTHON)):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {line} "$@"\n', encoding="utf-8")
            program.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARKHAVEN")}
        path = f"{programs}{os.pathsep}{kept['PATH']}"
        self.environ = {**kept, "PATH": path, "COLUMNS": "120", **self.environ}

    def run(self, command: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of one command."""
        kept = self.base / ".programs" / "environ"
        script = f"{command}\ncode=$?\nenv -0 > {shlex.quote(str(kept))}\nexit $code"
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.base, env=self.environ, capture_output=True, text=True, timeout=PATIENCE
        )
        pairs = kept.read_text(encoding="utf-8").split("\0")
        self.environ = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        return done.returncode, done.stdout, done.stderr

    def follow(self, page: Path) -> list[str]:
        """Does what a page says; what differs, as sentences."""
        differs = []
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.file:
                self.put(block)
            for step in steps(block):
                found = self.output(step)
                if not matches(step.expected, found):
                    shown = "\n".join(["  expected:", *step.expected, "  found:", *found])
                    differs.append(f"{page.name}:{step.at}: $ {step.command}\n{shown}")
        return differs

    def output(self, step: Step) -> list[str]:
        """What a page may show: standard output, and the error with which a command of ours ends."""
        code, out, err = self.run(step.command)
        ended = err.partition(ERROR)[1:] if code else ()
        lines = [line.rstrip() for line in (out + "".join(ended)).splitlines()]
        return lines if any(ended) or not code else [*lines, f"exit code {code}", *err.splitlines()]

    def put(self, block: Block) -> None:
        path = self.base / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in block.lines), encoding="utf-8")


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    lines: list[str] = []
    language, begun, file = "", 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if not begun and (fence := FENCE.match(line)):
            language, begun, lines = fence[1], number + 1, []
        elif begun and line == "```":
            yield Block(language, tuple(lines), begun, file)
            begun, file = 0, ""
        elif begun:
            lines.append(line)
        elif named := FILE.match(line):
            file = named[1]
        elif line.strip():
            file = ""


def steps(block: Block) -> Iterator[Step]:
    """The commands of a ``console`` block."""
    if block.language != "console":
        return
    step: Step | None = None
    for number, line in enumerate(block.lines, block.at):
        if line.startswith("$ "):
            if step is not None:
                yield step
            step = Step(line[2:], [], number)
        elif step is not None:
            step.expected.append(line)
    if step is not None:
        yield step


def matches(expected: list[str], found: list[str]) -> bool:
    """Whether output is what a page shows."""
    wanted = list(expected)
    while wanted and not wanted[-1].strip():
        wanted.pop()
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == ANY else ".*".join(map(re.escape, line.rstrip().split(ANY))) + r"\n"
        for line in wanted
    )
    return (
        re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in found).rstrip("\n") + "\n" * bool(found))
        is not None
    )


def rewrite(session: Session, page: Path) -> int:
    """Follows a page and puts what came out where it differs; how many commands that were."""
    text = page.read_text(encoding="utf-8")
    lines, changed = text.splitlines(), []
    for block in blocks(text):
        if block.file:
            session.put(block)
        for step in steps(block):
            found = session.output(step)
            if not matches(step.expected, found):
                changed.append((step, [_as_before(line, step.expected) for line in found]))
    for step, found in reversed(changed):
        lines[step.at : step.end] = found
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(changed)


def _as_before(line: str, expected: list[str]) -> str:
    """The line of the page, with its ``…``, that still stands for a line of output."""
    return next((old for old in expected if old.strip() != ANY and ANY in old and matches([old], [line])), line)
