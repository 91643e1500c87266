"""CPU seconds to decode 1 M JSON lines or CSV records, one thread: the compiled scanners, what runs without, peers.

    python -m benchmarks.parts.scan [--rows 200000] [--rounds 5] [--formats json csv] [--shapes clean ...]

Without the scanner JSON goes the exact way, and CSV by PyArrow and the exact way. All ways to decode a feed go over the
same bytes in one process, in turn; the best of all rounds counts, and what we make with and without must be equal.
Peers are the typed CSV readers of PyArrow and DuckDB, where they do the same work: a feed without bad records.
Limit: no shape takes longer with the scanner (exit 1 beyond).
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv

from benchmarks.parts.decode import COLUMNS, JSON_FEEDS, Row, line_text, rows
from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import line_blocks
from sparkhaven.ingest.formats.csv.csv_rows import CsvDecoder
from sparkhaven.ingest.formats.json.json_rows import JsonDecoder
from sparkhaven.ingest.spec import BadRowBudget, CsvOptions, Target
from sparkhaven.ingest.values.typed_rows import TypedRows
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage

BUDGET = BadRowBudget(10**9, 1.0)
Made = tuple[list[TypedRows], int]  # good rows, number of bad ones


@dataclass(frozen=True)
class Feed:
    """How rows are written, the columns that take them, the unit of their instants; ``peers`` can read it too."""

    text: Callable[[Row], str]
    columns: dict[str, str]
    unit: Any = "ns"
    peers: bool = False

    @property
    def targets(self) -> list[Target]:
        """One for each column."""
        return [Target(_column(name, kind), name, self.unit, None, None, True) for name, kind in self.columns.items()]


def _column(name: str, kind: str) -> Column:
    text = kind == "String"
    storage = Storage.SYMBOL if text else Storage.FIXED
    return Column(name, data_type(kind), Kind.NORMAL, storage, 0, "UTF_8" if text else None)


def _one_in_twenty(row: Row) -> str:
    return line_text({**row, "note": f'say "{row["note"]}"\n'} if row["id"] % 20 == 0 else row)


def _two_objects(row: Row) -> str:
    return line_text({**row, "x": {"y": [1, 2, {"z": row["note"]}], "on": True}, "x2": None, "x3": row["px"]})


def _clock(row: Row) -> str:
    return f"2013-01-01T05:{row['id'] // 60 % 60:02}:{row['id'] % 60:02}Z"


def _record(row: Row, quoting: Any = csv.QUOTE_MINIMAL) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=quoting, lineterminator="\n").writerow(row.values())
    return out.getvalue().removesuffix("\n")


def _bad_record(row: Row) -> str:
    """Six kinds of wrongness in turn."""
    if row["id"] % 100:
        return _record(row)
    kinds: list[Row] = [{"qty": "x"}, {"qty": 1.5}, {"lvl": 2**40}, {"px": "1,5"}, {"flag": "yes"}]
    kind = int(row["id"]) // 100 % (len(kinds) + 1)
    return _record({**row, **kinds[kind]}) if kind < len(kinds) else _record(row) + ",more"


def _numbers(row: Row) -> str:
    px, bid = row["px"], row["bid"]
    return ",".join([repr(px + n) if n % 2 else repr(bid * n) for n in range(20)])


def _texts(row: Row) -> str:
    return ",".join([f"{row['note']} of {row['sym']} no. {n}" for n in range(8)])


_JSON = {
    **JSON_FEEDS,
    "5 % escaped": _one_in_twenty,
    "all escaped": lambda row: line_text({**row, "note": f"caf\u00e9 {row['note']}"}),
    "unknown objects": _two_objects,
    "epoch with fraction": lambda row: line_text({**row, "ts": "@"}).replace('"@"', f"{row['ts'] / 1e9:.3f}"),
    "ISO instants": lambda row: line_text({**row, "ts": _clock(row)}),
    "many distinct texts": lambda row: line_text({**row, "note": f"order {row['id']} of {row['px']}"}),
    "17 digits": lambda row: line_text({**row, "px": row["px"] / 3, "bid": row["bid"] / 7}),
}
_UNITS = {"epoch with fraction": "s", "ISO instants": "iso"}
FEEDS: dict[str, dict[str, Feed]] = {
    "json": {name: Feed(text, COLUMNS, _UNITS.get(name, "ns")) for name, text in _JSON.items()},
    "csv": {
        "clean": Feed(_record, COLUMNS, peers=True),
        "ISO instants": Feed(lambda row: _record({**row, "ts": _clock(row)}), COLUMNS, "iso", peers=True),
        "quoted": Feed(lambda row: _record(row, csv.QUOTE_ALL), COLUMNS, peers=True),
        "1 % bad": Feed(_bad_record, COLUMNS),
        "line ends inside": Feed(lambda row: _record({**row, "note": f"{row['note']}\nx"}), COLUMNS, peers=True),
        "wide, numeric": Feed(_numbers, {f"n{n}": "double" for n in range(20)}, peers=True),
        "texts": Feed(_texts, {f"t{n}": "String" for n in range(8)}, peers=True),
    },
}


def ours(form: str, feed: Feed, data: bytes, *, compiled: bool) -> Callable[[], Made]:
    """Bytes to typed rows, with the scanner or without."""
    targets = feed.targets

    def json_lines() -> Made:
        rejects, decoder = Rejects(BUDGET), JsonDecoder(targets, [], compiled=compiled)
        typed = [decoder.decode(block, "feed", rejects) for block in line_blocks([data])]
        return typed, rejects.bad

    def csv_records() -> Made:
        options = CsvOptions(header=False, names=tuple(feed.columns))
        rejects, decoder = Rejects(BUDGET), CsvDecoder(targets, [], options, compiled=compiled)
        typed, rest = [], None
        for block in line_blocks([data]):
            whole = block if rest is None else rest.before(block)
            rows_, used = decoder.decode(whole, "feed", rejects, last=False)
            typed.append(rows_)
            rest = whole.rest(used) if used < len(whole) else None
        return typed, rejects.bad

    return json_lines if form == "json" else csv_records


def peers(feed: Feed, data: bytes, path: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """The typed readers of others over the same bytes, one thread each."""
    arrow = {name: target.column.type.arrow for name, target in zip(feed.columns, feed.targets, strict=True)}
    if feed.unit == "ns":
        arrow = {name: pa.int64() if pa.types.is_timestamp(kind) else kind for name, kind in arrow.items()}
    read = pa.csv.ReadOptions(use_threads=False, column_names=list(arrow))
    parse = pa.csv.ParseOptions(newlines_in_values=True)
    convert = pa.csv.ConvertOptions(column_types=arrow, strings_can_be_null=True)
    yield "pyarrow", lambda: pa.csv.read_csv(pa.BufferReader(data), read, parse, convert)
    words = {"long": "BIGINT", "int": "INTEGER", "double": "DOUBLE", "Boolean": "BOOLEAN", "String": "VARCHAR"}
    instant = "BIGINT" if feed.unit == "ns" else "TIMESTAMPTZ"
    columns = {name: words.get(kind, instant) for name, kind in feed.columns.items()}
    connection = duckdb.connect(config={"threads": 1})
    query = (
        f"SELECT * FROM read_csv('{path}', header=false, auto_detect=false, delim=',', quote='\"', columns={columns})"
    )
    yield "DuckDB", lambda: connection.sql(query).to_arrow_table()


def best_of(ways: Sequence[Callable[[], Any]], rounds: int) -> tuple[list[float], list[Any]]:
    """The least CPU seconds of each way, and what each made last; all ways in turn."""
    best = [float("inf")] * len(ways)
    results: list[Any] = []
    for _ in range(rounds):
        results = []
        for index, way in enumerate(ways):
            started = time.process_time()
            results.append(way())
            best[index] = min(best[index], time.process_time() - started)
    return best, results


def equal(left: Made, right: Made) -> bool:
    """Whether both have the same rows, and as many bad ones."""
    pairs = list(zip(right[0], left[0], strict=True))  # texts are plain without the scanner
    return left[1] == right[1] and all(
        (a.numbers == b.numbers).all()
        and all(p.cast(q.type).equals(q) for p, q in zip(a.columns, b.columns, strict=True))
        for a, b in pairs
    )


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--formats", nargs="*", choices=FEEDS, default=list(FEEDS))
    parser.add_argument("--shapes", nargs="*", default=None)
    args = parser.parse_args()
    source_rows, worst, per_million = list(rows(args.rows)), 9.0, 1e6 / args.rows
    print(f"{'feed, CPU s/M':<26} {'without':>9} {'with':>9} {'times':>7} {'pyarrow':>9} {'DuckDB':>9}")
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "feed"
        for form, shape, feed in ((kind, *item) for kind in args.formats for item in FEEDS[kind].items()):
            if args.shapes is not None and shape not in args.shapes:
                continue
            data = "".join(feed.text(row) + "\n" for row in source_rows).encode()
            path.write_bytes(data)
            others = list(peers(feed, data, path)) if feed.peers else []
            ways = [ours(form, feed, data, compiled=compiled) for compiled in (False, True)]
            best, results = best_of([*ways, *(way for _, way in others)], args.rounds)
            if not equal(results[0], results[1]) or any(other.num_rows != args.rows for other in results[2:]):
                print(f"{form} {shape}: what was made differs")
                return 2
            worst = min(worst, best[0] / best[1])
            shown = [f"{seconds * per_million:>9.2f}" for seconds in best]
            print(
                f"{form + ', ' + shape:<26} {shown[0]} {shown[1]} {best[0] / best[1]:>7.1f} {' '.join(shown[2:])}",
                flush=True,
            )
    return int(worst < 1.0)


if __name__ == "__main__":
    sys.exit(main())
