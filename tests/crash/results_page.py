"""The page of results: one section a part of the harness, each renewed alone, with commit and machine of its run."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

HEADER = ("point", "fault", "mode", "rounds", "lost", "doubled", "torn", "other trouble", "remark")
INTRODUCTION = """# What breaking it has shown

Written by `python -m tests.crash.results`, which renews the sections whose names it is given.

Each round breaks something, starts again, and compares with what was acknowledged and with the input.
*Lost* are acknowledged rows that should be there (modes `periodic` and `none`: rows that were synced),
*doubled* rows that are there twice, *torn* rows or epochs of which a part is there. All should be 0 for ours;
other writers are shown beside it with the settings that they come with.
"""


@dataclass(slots=True)
class Line:
    """One line of the table; ``other`` are rounds that went wrong in another way than the three counted ones.

    ``ours`` False: of a writer that is only shown for comparison.
    """

    point: str
    fault: str
    mode: str
    rounds: int = 0
    lost: int = 0
    doubled: int = 0
    torn: int = 0
    other: int = 0
    remark: str = ""
    ours: bool = True

    def try_(self, what: Callable[[], object]) -> None:
        """One round more; an AssertionError is sorted by its first word."""
        self.rounds += 1
        try:
            what()
        except Exception as error:
            word = str(error).partition(":")[0].split(" ")[0] if isinstance(error, AssertionError) else ""
            if word in ("lost", "doubled", "torn"):
                setattr(self, word, getattr(self, word) + 1)
            else:
                self.other += 1
            print(f"{self.point}, {self.fault}: {type(error).__name__}: {error}", flush=True)

    @property
    def cells(self) -> list[str]:
        """The line as the table shows it."""
        return [str(cell) for cell in (self.point, self.fault, self.mode, *self.counts, self.remark)]

    @property
    def counts(self) -> list[int]:
        """Rounds, lost, doubled, torn, other."""
        return [self.rounds, self.lost, self.doubled, self.torn, self.other]

    @property
    def bad(self) -> bool:
        """Whether we have not kept our word."""
        return self.ours and any(self.counts[1:])


def section(part: str, title: str, lines: Sequence[Line], command: str, note: str = "") -> str:
    """A part's text: what it is, when and where it was run, its table, and how many of its rounds were bad."""
    ours = [line for line in lines if line.ours]
    rounds, bad = sum(line.rounds for line in ours), sum(sum(line.counts[1:]) for line in ours)
    table = [HEADER, ("---",) * len(HEADER), *(line.cells for line in lines)]
    said = [
        f"## {part}",
        "",
        f"{title}. {written_by(command)}",
        *(["", note] if note else []),
        "",
        *(f"| {' | '.join(cells)} |" for cells in table),
        "",
        f"{rounds:,} rounds, {bad} bad." if ours else "Nothing was run.",
    ]
    return "\n".join(said) + "\n"


def written_by(command: str) -> str:
    """By which command something was written, at which commit and on which machine."""
    return f"Written by `{command}` at {_commit()}: {_machine()}."


def renewed(page: str, sections: Mapping[str, str], order: Sequence[str], introduction: str = INTRODUCTION) -> str:
    """The page with sections put in place of those of the same name; the others stay as they are."""
    found = re.split(r"^(?=## )", page, flags=re.M)[1:]
    known = {text.splitlines()[0].removeprefix("## "): text.strip() + "\n" for text in found} | dict(sections)
    names = [*(name for name in order if name in known), *(name for name in known if name not in order)]
    return "\n".join([introduction, *(known[name] for name in names)])


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _machine() -> str:
    cores = len(Path("/proc/cpuinfo").read_text(encoding="utf-8").split("processor\t")) - 1
    packages = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "numpy"))
    where = f"{platform.system()} {platform.release()}, {cores} cores, Python {platform.python_version()}"
    return f"{where}, {packages}"
