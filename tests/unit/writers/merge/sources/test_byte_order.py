"""Sources of another byte order among those that a merge reads together: the same rows come out."""

from __future__ import annotations

import random
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.store.epochs.state.log_values import LocationReport
from sparkhaven.store.format.column.prefix import DATA_OFFSET
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.native.files import read_files
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.writers.merge.plan import open_source
from sparkhaven.writers.merge.sources.sort_keys import SortKey
from sparkhaven.writers.partitions import add_partition
from tests.support.tables.big_endian import big_endian
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, history_bytes, merge

SOURCES = [f"s{number}" for number in range(7)]
FOREIGN = {"s0", "s3", "s4"}


class TwoWriters(IntradayRows):
    """Some locations come from a writer of the other byte order, which committed its bytes as they are."""

    foreign: frozenset[str] = frozenset()

    def _append(self, key: LocationKey, table: pa.Table) -> LocationReport:
        report = super()._append(key, table)
        if key.internal not in self.foreign:
            return report
        directory, files = self.layout.intraday_location(self.table, key), dict(report.files)
        for column in self.schema.stored:
            big_endian(directory, column, DATA_OFFSET)
            for name in column.files:
                data = (directory / name).read_bytes()[DATA_OFFSET if name.endswith(".dat") else 0 :]
                files[name] = FileState(len(data), zlib.crc32(data))
        return replace(report, files=files)


def made(root: Path, foreign: set[str]) -> Layout:
    rng = random.Random(5)
    db = TwoWriters(root, SCHEMA, fs=FS)
    db.foreign = frozenset(foreign)
    rows = {(name, DAY): [random_row(rng) for _ in range(20)] for name in SOURCES}
    for some in rows.values():
        some[0] |= dict.fromkeys(("Sym", "Venue", "Note"), "a")  # each source has texts of each column
    db.commit({key: as_table(some) for key, some in rows.items()})
    add_partition(FS, db.layout, "Test", "0")
    return db.layout


@pytest.mark.parametrize("verified", [True, False])
@pytest.mark.parametrize("sort", [(), (SortKey("D", True), SortKey("Venue"))])
def test_a_source_of_the_other_byte_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sort: Any, verified: bool
) -> None:
    asked: set[str] = set()

    def noted(fs: Any, paths: list[str], *rest: Any) -> Any:
        asked.update(paths)
        return read_files(fs, paths, *rest)

    monkeypatch.setattr(open_source, "read_files", noted)
    layout = made(tmp_path / "two", FOREIGN)
    merge(layout, sort=sort, verify_sources=verified)
    for name in ("L.dat", "Sym.dat", "Sym.sym"):
        for source in FOREIGN:
            assert str(layout.intraday_location(TABLE, LocationKey(source, DAY)) / name) in asked
    same = made(tmp_path / "one", set())
    merge(same, sort=sort, verify_sources=verified)
    assert history_bytes(layout) == history_bytes(same)
