"""One feed into three tables, against three streams of it: ``python -m benchmarks.parts.several_tables [ROWS]``.

Rows of three kinds, as JSON lines. *Together*: one stream file with three tables. *Apart*: three files, each with
one of the tables, that leave the rows of the others out. *As one*: the feed as a table with the columns of all, three
times, which is what three streams without ``where`` decode. Each in this process, without Spark, after a warm-up.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from sparkhaven.jobs.settings.stream_file import NotStarted, load_stream_tables
from sparkhaven.jobs.streams.process import run_streams
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.jobs.streams.stream import RunOptions
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout

ROWS = 600_000
TRADE = {"Sym": "String", "At": "Instant", "Price": "double", "Size": "long", "Venue": "String"}
QUOTE = {"Sym": "String", "At": "Instant", "Bid": "double", "Ask": "double", "BidSize": "int", "AskSize": "int"}
STATUS = {"Sym": "String", "At": "Instant", "State": "String"}
KINDS: Mapping[str, Mapping[str, str]] = {"Trade": TRADE, "Quote": QUOTE, "Status": STATUS}
ALL = TRADE | QUOTE | STATUS
VALUES: dict[str, object] = {"Price": 101.25, "Size": 300, "Venue": "XNAS", "Bid": 101.0, "Ask": 101.5}
MORE: dict[str, object] = {"BidSize": 5, "AskSize": 7, "State": "open"}


def write_feed(feed: Path, rows: int) -> None:
    """Ten files."""
    feed.mkdir()
    kinds = list(KINDS)
    for number in range(10):
        lines = []
        for row in range(rows // 10):
            kind = kinds[row % 3]
            instant = f"2026-11-20T10:{row // 60 % 60:02d}:{row % 60:02d}.{row % 1000:03d}Z"
            record = {"kind": kind, "Sym": f"S{row % 50}", "At": instant}
            values = VALUES | MORE
            lines.append(json.dumps(record | {name: values[name] for name in KINDS[kind] if name in values}))
        (feed / f"{number}.json").write_text("\n".join(lines) + "\n")


def write_stream(base: Path, name: str, tables: Mapping[str, Mapping[str, str]], *, routed: bool = True) -> Path:
    """A stream file with these tables, and their schemas."""
    text = f'name = "{name}"\n' + ('else = "ignore"\n' if routed else "")
    end = f'[feed]\ntype = "files"\npath = "{base}/feed"\nformat = "json"\nsettle = "0s"\n[logs]\nenabled = false\n'
    for table, columns in tables.items():
        lines = "".join(f'<Column name="{column}" dataType="{kind}"/>' for column, kind in columns.items())
        date = '<Column name="Date" dataType="String" columnType="Partitioning"/>'
        kind = f'namespace="Md" name="{table}" storageType="NestedPartitionedOnDisk"'
        (base / f"{table}.schema").write_text(f"<Table {kind}>{date}{lines}</Table>\n")
        named = f'table = "Md.{table}"\nschema = "{table}.schema"\n'
        rule = f'internal = {{ fixed = "{name}" }}\nvalue = {{ column = "At" }}\nclock = "2026-11-20T12:00:00Z"\n'
        if routed:
            where = f'where = {{ column = "kind", equals = "{table}" }}\n'
            end += f"[[tables]]\n{named}{where}[tables.partition]\n{rule}"
        else:
            text += named
            end += f"[partition]\n{rule}"
    (base / f"{name}.toml").write_text(text + end)
    return base / f"{name}.toml"


def ingest(root: Path, files: Sequence[Path]) -> float:
    """Seconds that these streams take, one after the other."""
    progress, seconds = Progress(console=Console(quiet=True)), 0.0
    for file in files:
        streams = load_stream_tables(Fs(), file, {})
        begun = time.perf_counter()
        runs = run_streams(Fs(), Layout(root), streams, RunOptions(once=True, where="local"), progress)
        seconds += time.perf_counter() - begun
        failed = [run.error for run in runs if isinstance(run, NotStarted) or run.error is not None]
        if failed:
            raise SystemExit(f"a stream failed: {failed[0]}")
    return seconds


def main(rows: int) -> None:
    """Prints the seconds of each way, the best of three, and their ratios."""
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        write_feed(base / "feed", rows)
        ways = {
            "together": [write_stream(base, "together", KINDS)],
            "apart": [write_stream(base, f"apart-{kind}", {kind: columns}) for kind, columns in KINDS.items()],
            "as one": [write_stream(base, f"one-{n}", {"Whole": ALL}, routed=False) for n in range(3)],
        }
        best: dict[str, float] = {}
        for turn in range(4):  # the first warms up
            for way, files in ways.items():
                seconds = ingest(base / f"db-{way}-{turn}", files)
                if turn:
                    best[way] = min(seconds, best.get(way, seconds))
        for way, seconds in best.items():
            print(f"{way:9} {seconds:6.2f} s  {best['together'] / seconds:.2f} of it is what together takes")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
