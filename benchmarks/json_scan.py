"""CPU seconds to decode 1 M JSON lines of 10 columns, one thread: the compiled scanner, and the exact pass without it.

    python -m benchmarks.json_scan [--rows 200000] [--rounds 5] [--shapes clean ...]

Both decode the same blocks of lines in one process, in turn; the best of all rounds counts, and what they make must be
equal. Limit: no shape takes longer with the scanner (exit 1 beyond).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.decode import JSON_FEEDS, Row, line_text, rows, table
from ingest.bad_rows import Rejects
from ingest.content.lines import LineBlock, line_blocks
from ingest.formats.json.rows import JsonRows
from ingest.options.files import FilesOptions
from ingest.spec import BadRowBudget, Clock, ColumnSpec, InternalRule, PartitionSpec, StreamSpec, Target, ValueRule
from ingest.targets import resolve_targets
from ingest.values.rows import Rows

SPEC = StreamSpec(
    "bench",
    "Bench.Rows",
    FilesOptions("feed", "json"),
    PartitionSpec(InternalRule("column", "venue"), ValueRule("ts"), Clock("fixed", 0)),
    (ColumnSpec("ts", unit="ns"),),
    bad_rows=BadRowBudget(10**9, 1.0),
)


def _one_in_twenty(row: Row) -> str:
    return line_text({**row, "note": f'say "{row["note"]}"\n'} if row["id"] % 20 == 0 else row)


def _two_objects(row: Row) -> str:
    return line_text({**row, "x": {"y": [1, 2, {"z": row["note"]}], "on": True}, "x2": None, "x3": row["px"]})


SHAPES: dict[str, Callable[[Row], str]] = {
    **JSON_FEEDS,
    "5 % escaped": _one_in_twenty,
    "all escaped": lambda row: line_text({**row, "note": f"caf\u00e9 {row['note']}"}),
    "unknown objects": _two_objects,
    "epoch with fraction": lambda row: line_text({**row, "ts": "@"}).replace('"@"', f"{row['ts'] / 1e9:.3f}"),
    "ISO instants": lambda row: line_text(
        {**row, "ts": f"2013-01-01T05:{row['id'] // 60 % 60:02}:{row['id'] % 60:02}Z"}
    ),
    "many distinct texts": lambda row: line_text({**row, "note": f"order {row['id']} of {row['px']}"}),
    "17 digits": lambda row: line_text({**row, "px": row["px"] / 3, "bid": row["bid"] / 7}),
}
UNITS = {"epoch with fraction": "s", "ISO instants": "iso"}


def targets_of(shape: str) -> list[Target]:
    """The columns of a shape."""
    unit = UNITS.get(shape)
    spec = SPEC if unit is None else _with_unit(unit)
    return list(resolve_targets(spec, table()))


def _with_unit(unit: str) -> StreamSpec:
    return replace(SPEC, columns=(ColumnSpec("ts", unit=unit),))  # type: ignore[arg-type]


def once(chosen: JsonRows, blocks: list[LineBlock]) -> tuple[float, list[Rows], Rejects]:
    """CPU seconds, and what came out."""
    rejects = Rejects(SPEC.bad_rows)
    started = time.process_time()
    found = [chosen.decode(block, "feed", rejects) for block in blocks]
    return time.process_time() - started, found, rejects


def equal(left: list[Rows], right: list[Rows]) -> bool:
    """Whether both have the same rows."""
    pairs = list(zip(left, right, strict=True))
    return all(
        (a.numbers == b.numbers).all() and all(p.equals(q) for p, q in zip(a.columns, b.columns, strict=True))
        for a, b in pairs
    )


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shapes", nargs="*", choices=SHAPES, default=list(SHAPES))
    given = parser.parse_args()
    made, worst = list(rows(given.rows)), 9.0
    print(f"{'feed':<22} {'without s/M':>12} {'with s/M':>10} {'times':>7}")
    for shape in given.shapes:
        blocks = list(line_blocks([("".join(SHAPES[shape](row) + "\n" for row in made)).encode()]))
        targets = targets_of(shape)
        both = [JsonRows(targets, [], compiled=compiled) for compiled in (False, True)]
        best = [float("inf")] * 2
        for _ in range(given.rounds):
            found = [once(one, blocks) for one in both]
            best = [min(least, one[0]) for least, one in zip(best, found, strict=True)]
        if not equal(found[0][1], found[1][1]) or found[0][2].bad != found[1][2].bad:
            print(f"{shape}: the two differ")
            return 2
        ratio = best[0] / best[1]
        worst = min(worst, ratio)
        before, after = (least * 1e6 / given.rows for least in best)
        print(f"{shape:<22} {before:>12.2f} {after:>10.2f} {ratio:>7.1f}", flush=True)
    return int(worst < 1.0)


if __name__ == "__main__":
    sys.exit(main())
