"""CPU seconds to decode and route 1 M rows of 10 columns, one thread: clean, and with things that feeds do.

    python -m benchmarks.parts.decode [--rows 1000000] [--dir DIR]

Ratios are to the clean JSON feed. Limit: a feed with one bad row in a hundred, with escapes in one row of twenty, with
epochs that have a fraction, or with fields that nobody wants, takes at most 1.5 times as long (exit 1 beyond). What is
more than once is the exact pass, which a bad row goes through, at the price of many good ones.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.figures import add_record, record
from benchmarks.scratch import scratch
from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.raw_file import PlannedFile
from sparkhaven.ingest.feeds.base import route
from sparkhaven.ingest.feeds.files.decode import file_blocks
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.router import TableRows
from sparkhaven.ingest.spec import (
    BadRowBudget,
    Clock,
    ColumnSpec,
    Format,
    InternalRule,
    PartitionSpec,
    StreamSpec,
    Unit,
    ValueRule,
)
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage, TableSchema

COLUMNS = {
    "id": "long",
    "sym": "String",
    "venue": "String",
    "px": "double",
    "qty": "int",
    "ts": "Instant",
    "flag": "Boolean",
    "bid": "double",
    "note": "String",
    "lvl": "int",
}
START_NS = 1_357_016_400_000_000_000
WORST = 1.5
FIGURES = {
    "decode.bad.ratio": "1 % bad",
    "decode.escaped.ratio": "5 % escaped",
    "decode.fractions.ratio": "epoch with fraction",
    "decode.unknown.ratio": "unknown field",
}
Row = dict[str, Any]


def rows(count: int) -> Iterator[Row]:
    """Rows as a feed would have them, the same each time."""
    chance = random.Random(1)  # noqa: S311 not a secret
    for number in range(count):
        yield {
            "id": number,
            "sym": chance.choice(["AAPL", "MSFT", "GOOG", "IBM"]),
            "venue": chance.choice("NQZB"),
            "px": round(chance.random() * 500, 2),
            "qty": chance.randint(1, 10_000),
            "ts": START_NS + number * 1_000_003,
            "flag": chance.random() < 0.5,
            "bid": round(chance.random() * 500, 4),
            "note": f"order{chance.randint(0, 100_000)}",
            "lvl": chance.randint(0, 9),
        }


def line_text(row: Row) -> str:
    return json.dumps(row, separators=(",", ":"))


def bad_one_in_a_hundred(row: Row) -> str:
    """Eight kinds of wrongness in turn."""
    if row["id"] % 100:
        return line_text(row)
    kinds: list[Callable[[], str]] = [
        lambda: line_text(row)[:-5],
        lambda: line_text({**row, "qty": "5"}),
        lambda: line_text({**row, "qty": 1.5}),
        lambda: line_text({**row, "lvl": 2**40}),
        lambda: line_text({**row, "sym": 7}),
        lambda: line_text({**row, "px": float("nan")}),
        lambda: line_text(row)[:-1] + ',"px":"x"}',
        lambda: "",
    ]
    return kinds[int(row["id"]) // 100 % len(kinds)]()


JSON_FEEDS: dict[str, Callable[[Row], str]] = {
    "clean": line_text,
    "1 % bad": bad_one_in_a_hundred,
    "nulls": lambda row: line_text({**row, "px": None} if row["id"] % 3 else row),
    "missing": lambda row: line_text({k: v for k, v in row.items() if k != "px"} if row["id"] % 3 else row),
    "5 % escaped": lambda row: line_text(row if row["id"] % 20 else {**row, "note": 'a "caf\u00e9"\n'}),
    "epoch with fraction": lambda row: line_text({**row, "ts": "@"}).replace('"@"', f"{row['ts'] / 1e9:.3f}"),
    "unknown field": lambda row: line_text({**row, "extra": "in note"}),
    "2.0 for 2, spaces": lambda row: json.dumps({**row, "qty": float(row["qty"])}),
}


def table() -> TableSchema:
    """The table that the rows go to."""
    date = Column("Date", data_type("String"), Kind.PARTITIONING, Storage.NONE, 0, "UTF_8")
    columns = [date]
    for number, (name, kind) in enumerate(COLUMNS.items(), 1):
        text = kind == "String"
        storage = Storage.SYMBOL if text else Storage.FIXED
        columns.append(Column(name, data_type(kind), Kind.NORMAL, storage, number, "UTF_8" if text else None))
    return TableSchema("Bench", "Rows", tuple(columns))


def measure(path: Path, form: Format, unit: Unit = "ns") -> tuple[float, int, int]:
    """CPU seconds, good rows, bad rows; the best of three runs."""
    options = FilesOptions(str(path), form)
    spec = StreamSpec(
        "bench",
        "Bench.Rows",
        options,
        PartitionSpec(InternalRule("column", "venue"), ValueRule("ts"), Clock("fixed", START_NS)),
        (ColumnSpec("ts", unit=unit),),
        bad_rows=BadRowBudget(10**9, 1.0),
    )
    stat = path.stat()
    split = FileId(str(path), stat.st_size, stat.st_mtime_ns)
    spent, good, rejects = math.inf, 0, Rejects(spec.bad_rows)
    for _ in range(3):
        rejects = Rejects(spec.bad_rows)
        before = time.process_time()
        tables = {0: TableRows(spec, table(), rejects)}
        blocks = file_blocks(PlannedFile(Fs(), split), tables, None, options, time.time)
        good = sum(routed.batch.num_rows for routed in route((block for _, block in blocks), rejects))
        spent = min(spent, time.process_time() - before)
    return spent, good, rejects.bad


def main() -> int:
    """Writes each feed, decodes it, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dir", type=Path, default=None)
    add_record(parser)
    args = parser.parse_args()
    per_million = 1e6 / args.rows
    results: dict[str, float] = {}

    def show(name: str, path: Path, form: Format, unit: Unit = "ns") -> None:
        spent, good, bad = measure(path, form, unit)
        results[name] = spent * per_million
        ratio = results[name] / results["json, clean"]
        size = path.stat().st_size / 1e6
        print(f"{name:<28} {size:>8.1f} {good:>10} {bad:>8} {results[name]:>10.2f} {ratio:>7.2f}", flush=True)
        path.unlink()

    with scratch("decode", args.dir) as top:
        print(f"{'feed':<28} {'MB':>8} {'good':>10} {'bad':>8} {'CPU s/M':>10} {'ratio':>7}")
        for name, text in JSON_FEEDS.items():
            path = top / "feed.json"
            with path.open("w", encoding="utf-8") as file:
                file.writelines(text(row) + "\n" for row in rows(args.rows))
            show(f"json, {name}", path, "json", "s" if name == "epoch with fraction" else "ns")
        path = top / "feed.json.gz"
        with gzip.open(path, "wt", compresslevel=1, encoding="utf-8") as packed:
            packed.writelines(line_text(row) + "\n" for row in rows(args.rows))
        show("json, gzip", path, "json")
        path = top / "feed.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(COLUMNS))
            writer.writeheader()
            writer.writerows(rows(args.rows))
        show("csv", path, "csv")
        path = top / "feed.parquet"
        pq.write_table(pa.Table.from_pylist(list(rows(args.rows))), path)
        show("parquet", path, "parquet")
    ratios = {name: results[f"json, {name}"] / results["json, clean"] for name in FIGURES.values()}
    print(f"limit {WORST} times the clean feed:", ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()))
    record(parser, args, {figure: ratios[name] for figure, name in FIGURES.items()})
    return int(max(ratios.values()) > WORST)


if __name__ == "__main__":
    sys.exit(main())
