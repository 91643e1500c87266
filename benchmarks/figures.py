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
    """Puts new values into the file; notes on the former ones go. KeyError: no figure of that name is known."""
    figures = json.loads(path.read_text(encoding="utf-8"))
    for name, value in measured.items():
        unit, digits, command = form_of(name, figures)
        entry = {"value": f"{value:,.{digits}f}", "unit": unit, "command": command}
        figures[name] = {**entry, "date": day, "commit": commit}
    path.write_text(_text(figures.items()), encoding="utf-8")


SHAPES = ("numbers", "texts", "sources")


def form_of(name: str, figures: Mapping[str, Mapping[str, str]]) -> tuple[str, int, str]:
    """Unit, digits and command of a figure: those of the former one, or what is said of one that has none yet."""
    if name not in figures:
        return NEW[name]
    former = figures[name]
    return former["unit"], len(former["value"].partition(".")[2]), former["command"]


NEW: Mapping[str, tuple[str, int, str]] = {  # of figures that the file may lack: unit, digits, command
    **{f"feeds.avro{part}": ("s", 2, "feeds") for part in ("", ".parquet", ".delta")},
    **{f"feeds.avro.{sink}.ratio": ("×", 1, "feeds") for sink in ("parquet", "delta")},
    **{f"questdb{part}": ("s", 2, "questdb_ingest") for part in ("", ".frames", ".rows")},
    **{f"questdb.{way}.ratio": ("×", 1, "questdb_ingest") for way in ("frames", "rows")},
    **{f"shapes.{shape}{part}": ("s", 2, "merge_shapes") for shape in SHAPES for part in ("", ".duckdb")},
    **{f"shapes.{shape}.{part}": ("×", 1, "merge_shapes") for shape in SHAPES for part in ("ratio", "one_worker")},
    **{f"kafka.tls{part}": ("s", 2, "kafka_ingest") for part in ("", ".parquet", ".delta")},
    **{f"kafka.tls.{sink}.ratio": ("×", 1, "kafka_ingest") for sink in ("parquet", "delta")},
    "merge.cold": ("s", 1, "merge_speed"),
    "merge.cold.duckdb": ("s", 1, "merge_speed"),
    "merge.cold.duckdb.ratio": ("×", 1, "merge_speed"),
    **{
        f"page_cache.{kind}.{memory}.{way}.{part}": (unit, digits, "page_cache")
        for kind in ("ext4", "xfs")
        for memory in ("scarce", "ample")
        for way in ("cached", "direct")
        for part, unit, digits in (("merge", "s", 1), ("p99", "ms", 0))
    },
    "latency.questdb.p50": ("ms", 0, "latency"),
    "latency.questdb.p99": ("ms", 0, "latency"),
    "latency.questdb.ratio": ("×", 1, "latency"),
    "live.small.sums": ("M values/s", 0, "live"),
    "live.small.parquet": ("M values/s", 0, "live"),
    "live.small.ratio": ("×", 2, "live"),
    **{
        f"deep.{kind}.{when}": ("GB/s", 1, "parts.deep")
        for kind in ("numbers", "texts", "symbols")
        for when in ("first", "warm")
    },
}


def _text(figures: Iterable[tuple[str, Mapping[str, str]]]) -> str:
    lines = (f"  {json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}" for name, entry in figures)
    return "{\n" + ",\n".join(lines) + "\n}\n"
