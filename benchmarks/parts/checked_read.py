"""What comparing checksums costs a reader: the same read with ``checksum_verify`` ``read`` and ``off``, by shape.

``first`` is the first touch of the files in a process, ``again`` every later one, both against ``off`` in the same run;
files are in the page cache, the worst case, since nothing else is waited for, and it is CPU time that is compared, so
that neighbours do not count. Handed out: Arrow arrays, which for
fixed-width columns without nulls are the mapped files themselves. Used: each column is looked at once more (minimum and
maximum), as any use of the rows does.

    python -m benchmarks.parts.checked_read [--rows 4000000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.readers.arrow.export import export
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.snapshot import Snapshot, pinned_of
from sparkhaven.store.scan.checksums import Checks
from tests.support.disks.model_fs import QuickFs
from tests.support.tables.intraday_rows import IntradayRows

NUMBERS = 10


@dataclass(frozen=True)
class Shape:
    """A table, and how it is read."""

    name: str
    columns: str
    rows: Callable[[int, np.random.Generator], dict[str, pa.Array]]
    use: Callable[[Snapshot], object]
    locations: int = 1
    share: float = 1.0


def _numbers(rows: int, rng: np.random.Generator) -> dict[str, pa.Array]:
    return {f"N{i}": pa.array(rng.integers(0, 1 << 40, rows)) for i in range(NUMBERS)}


def _symbols(rows: int, rng: np.random.Generator) -> dict[str, pa.Array]:
    words = pa.array([f"SYM{i}" for i in range(5000)])
    return {f"S{i}": words.take(pa.array(rng.integers(0, 5000, rows))) for i in range(4)}


def _texts(rows: int, rng: np.random.Generator) -> dict[str, pa.Array]:
    return {"T0": pa.array(rng.integers(0, 1 << 60, rows)).cast(pa.string())}


def _hand_out(table: Snapshot) -> object:
    return table.to_arrow()


def _look(table: Snapshot) -> object:
    rows = table.to_arrow()
    return [pc.min_max(c.cast(pa.string()) if pa.types.is_dictionary(c.type) else c) for c in rows.columns[1:]]


def _filter(table: Snapshot) -> object:
    return table.to_arrow(where="N0 < 1000000000")


def _file(table: Snapshot) -> object:
    with tempfile.TemporaryDirectory() as directory:
        return export(table.to_batches(dictionaries=False), Path(directory) / "rows.parquet")


LONGS = "".join(f'<Column name="N{i}" dataType="long"/>' for i in range(NUMBERS))
SYMBOLS = "".join(f'<Column name="S{i}" dataType="String"/>' for i in range(4))
TEXTS = '<Column name="T0" dataType="String" symbolTable="None"/>'
SHAPES = (
    Shape("numbers, handed out", LONGS, _numbers, _hand_out),
    Shape("numbers, used", LONGS, _numbers, _look),
    Shape("numbers, filtered", LONGS, _numbers, _filter),
    Shape("numbers, to Parquet", LONGS, _numbers, _file, share=0.25),
    Shape("symbols, handed out", SYMBOLS, _symbols, _hand_out),
    Shape("symbols, used", SYMBOLS, _symbols, _look, share=0.25),
    Shape("texts, handed out", TEXTS, _texts, _hand_out),
    Shape("texts, used", TEXTS, _texts, _look),
    Shape("1,000 locations of 100 rows", LONGS, _numbers, _hand_out, locations=1000, share=0.025),
)


def _make(shape: Shape, root: Path, rows: int) -> None:
    xml = (
        '<Table namespace="Bench" name="Read" storageType="NestedPartitionedOnDisk">'
        '<Partitions keyFormula="${autobalance_single}"/>'
        f'<Column name="Date" dataType="String" columnType="Partitioning"/>{shape.columns}</Table>'
    )
    db = IntradayRows(root, xml.encode(), fs=QuickFs())
    rng = np.random.default_rng(7)
    location_rows = int(rows * shape.share) // shape.locations
    db.commit({(f"s{i}", "2026-11-20"): pa.table(shape.rows(location_rows, rng)) for i in range(shape.locations)})


def _seconds(shape: Shape, root: Path, checks: Checks | None) -> float:
    opened = Snapshot(pinned_of(open_table(root, "Bench.Read")).with_checks(checks))
    begun = time.process_time()
    shape.use(opened)
    return time.process_time() - begun


def measure(shape: Shape, rows: int, rounds: int) -> tuple[float, float, float]:
    """Milliseconds with ``off``, and the ratios of a first and of a later touch to it; the best of each."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "root"
        _make(shape, root, rows)
        off, first, again = [], [], []
        for _ in range(rounds + 1):
            checks = Checks()
            off.append(_seconds(shape, root, None))
            first.append(_seconds(shape, root, checks))
            again.append(_seconds(shape, root, checks))
    base = min(off[1:])
    return base * 1000, min(first[1:]) / base, min(again[1:]) / base


def main() -> None:
    """Prints one line a shape."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    print(f"{'shape':<30}{'off, ms':>12}{'first / off':>14}{'again / off':>14}")
    for shape in SHAPES:
        base, first, again = measure(shape, args.rows, args.rounds)
        print(f"{shape.name:<30}{base:>12.1f}{first:>14.2f}{again:>14.2f}", flush=True)


if __name__ == "__main__":
    main()
