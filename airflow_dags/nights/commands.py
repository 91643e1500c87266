"""Command lines of ``sparkhaven`` and of its entries for spark-submit, as lists of words."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Program:
    """The console script and the database root that all commands are for."""

    program: Path
    root: Path

    def line(self, words: Sequence[str]) -> list[str]:
        """The whole line for a process; results as JSON lines on standard output."""
        return [str(self.program), "--root", str(self.root), *words, "--json"]

    def submitted(self, words: Sequence[str]) -> list[str]:
        """The arguments of an entry for spark-submit, which adds the name of the command by itself."""
        return ["--root", str(self.root), *words[1:], "--json"]

    def by_hand(self, words: Sequence[str]) -> str:
        """The line that a person types to run it again and see more."""
        return shlex.join(["sparkhaven", "--root", str(self.root), *words, "-v"])


def merge(table: str, date: str, *, force: bool, dry_run: bool, local: bool, options: Sequence[str]) -> list[str]:
    """``force`` merges a merged date again, as a new generation."""
    flags = [("--rewrite", force), ("--dry-run", dry_run), ("--local", local and not dry_run)]
    return ["merge", table, "--dates", date, *options, *(flag for flag, is_set in flags if is_set)]


def validate(table: str, date: str) -> list[str]:
    """Rules of the schema, row counts, digests."""
    return ["validate", table, "--dates", date]


def truncate(table: str, date: str) -> list[str]:
    """Intraday rows go, with proof."""
    return ["truncate", table, "--dates", date]


def delete(table: str, date: str, *, grace_s: float) -> list[str]:
    """The files of a truncated date go."""
    return ["delete", table, "--dates", date, "--grace", f"{grace_s:g}"]


def status(table: str) -> list[str]:
    """Dates with rows that are not merged, and what else is unfinished."""
    return ["merge", table, "--status"]


def expire(table: str, *, keep_s: float, zone: str) -> list[str]:
    """Dates of history go that are older than that."""
    return ["dates", "expire", table, "--keep", f"{keep_s:.0f} s", "--zone", zone, "--yes"]


def snapshot(table: str, out: Path, since: Path | None) -> list[str]:
    """A copy of the table, which shares files with an earlier one."""
    return ["snapshot", table, "--out", str(out), *(["--since", str(since)] if since else [])]


def stats(table: str, streams: Sequence[Path]) -> list[str]:
    """Rows by date, positions; with stream files also what waits at their sources."""
    return ["stats", table, *map(str, streams)]


def doctor(table: str) -> list[str]:
    """Every check of the machine and of one table."""
    return ["doctor", table]


def epochs(table: str, stream: str) -> list[str]:
    """The epochs since the rollback floor, with their times and counts."""
    return ["epochs", "list", table, stream]


def verify(table: str) -> list[str]:
    """Every committed byte of a table."""
    return ["verify", table, "--deep"]


def ingest(stream: Path) -> list[str]:
    """All available input, then the end."""
    return ["ingest", str(stream), "--once"]
