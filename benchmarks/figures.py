"""Writes what a benchmark has measured into ``docs/figures.json``, from which the pages take it.

With ``--record``, and only then. A run with other sizes than those of the figures is refused.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "figures.json"
_TEST_ONLY = {"dir", "root", "record"}


def add_record(parser: argparse.ArgumentParser) -> None:
    """Adds ``--record``."""
    parser.add_argument("--record", action="store_true", help="write the figures into docs/figures.json")


def record(
    parser: argparse.ArgumentParser, args: argparse.Namespace, measured: Mapping[str, float], **sizes: object
) -> None:
    """Writes the figures with day and commit if that was asked for; the digits are those of the former figure.

    ``sizes`` are those of the figures, where they are not the defaults. SystemExit: the run has others. KeyError: no
    figure of that name.
    """
    if not args.record:
        return
    deviating = [
        name
        for name, value in vars(args).items()
        if name not in _TEST_ONLY and sizes.get(name, parser.get_default(name)) != value
    ]
    if deviating:
        parser.error(f"the figures are of other sizes than this run: {', '.join(sorted(deviating))}")
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    rewrite(FIGURES, measured, datetime.date.today().isoformat(), commit)
    print(f"{len(measured)} figures in {FIGURES.relative_to(ROOT)}: make reference")


def rewrite(path: Path, measured: Mapping[str, float], day: str, commit: str) -> None:
    """Puts new values into the file; notes on the former ones go."""
    figures = json.loads(path.read_text(encoding="utf-8"))
    for name, value in measured.items():
        former = figures[name]
        text = f"{value:,.{len(former['value'].partition('.')[2])}f}"
        kept = {"unit": former["unit"], "command": former["command"]}
        figures[name] = {"value": text, **kept, "date": day, "commit": commit}
    path.write_text(_text(figures.items()), encoding="utf-8")


def _text(figures: Iterable[tuple[str, Mapping[str, str]]]) -> str:
    lines = (f"  {json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}" for name, entry in figures)
    return "{\n" + ",\n".join(lines) + "\n}\n"
