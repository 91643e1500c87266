"""Indexes are built in pieces that fit a worker's memory; the files are those of one piece."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from sparkhaven.store.format.table import table_size
from sparkhaven.store.scan.column_file import open_column
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage
from sparkhaven.writers.merge.sources.merge_source import BlockSizes
from sparkhaven.writers.merge.write.indexes import LeadingWords, key_pieces
from sparkhaven.writers.partitions import add_partition
from tests.support.tables.column_files import append_column
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, as_table, random_row
from tests.support.writers.merge_runs import FS, merge

INDEXES = (
    b'<DataIndex columns="S"/><DataIndex columns="L,Venue"/><DataIndex columns="Venue,D"/><DataIndex columns="Note"/>'
)
INDEXED = SCHEMA.replace(b"</Table>", INDEXES + b"</Table>")
LONG = Column("L", data_type("long"), Kind.NORMAL, Storage.FIXED, 1)
WIDE = Column(
    "W",
    data_type("BigDecimal", "io.deephaven.util.codec.BigDecimalCodec", "38,10"),
    Kind.NORMAL,
    Storage.FIXED,
    1,
)
ROWS = 1 << 15


@pytest.mark.slow
@pytest.mark.parametrize("form", ["deephaven", "both"])
def test_pieces_give_the_same_files_as_one(tmp_path: Path, form: str) -> None:
    rng = random.Random(3)
    rows = [random_row(rng) for _ in range(400)]
    for name, sizes in (("one", BlockSizes()), ("many", BlockSizes(rows=37, index_bytes=20_000))):
        db = IntradayRows(tmp_path / name, INDEXED, fs=FS)
        db.commit({("a", DAY): as_table(rows)})
        add_partition(FS, db.layout, "Test", "0")
        merge(db.layout, format=form, sizes=sizes)
    files = [path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if "ndex" in str(path.parent)]
    assert len([path for path in files if path.suffix == ".bytes"]) >= 6
    for path in files:
        if path.name.endswith((".dat", ".bytes", ".parquet")):
            assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "many" / path).read_bytes(), path


def test_a_sidecar_has_row_groups_as_the_rows_have(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path, INDEXED, fs=FS)
    db.commit({("a", DAY): as_table([random_row(random.Random(number)) for number in range(90)])})
    add_partition(FS, db.layout, "Test", "0")
    merge(db.layout, format="both", sizes=BlockSizes(group_rows=7))
    sidecars = list(tmp_path.rglob("index_*.parquet"))
    assert len(sidecars) == 5
    for path in sidecars:
        metadata = parquet.read_metadata(path)
        groups = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        assert max(groups) <= 7
        keys = path.name.removeprefix("index_").removesuffix("_table.parquet")
        (size,) = (table_size.load(FS, index) for index in tmp_path.rglob(f"Index-{keys}"))
        assert size is not None and sum(groups) == size.size


@pytest.mark.slow
@pytest.mark.parametrize("column", [LONG, WIDE], ids=["long", "wide decimal"])
def test_a_piece_takes_no_more_than_its_memory(tmp_path: Path, column: Column) -> None:
    """Each row has a key of its own; numpy's and Python's memory is counted, Arrow's is the mapped file.

    The first bytes of the decimals are alike.
    """
    keys = np.random.default_rng(1).permutation(ROWS).astype(np.int64)
    sizes, _ = append_column(FS, tmp_path, column, [pa.array(keys).cast(column.type.arrow)])
    peaks = {}
    for budget in (1 << 20, 1 << 40):
        tracemalloc.start()
        first = 0
        opened, stored = [open_column(FS, tmp_path, column, sizes, ROWS)], sum(sizes.values())
        for piece in key_pieces(opened, [column], stored, ROWS, block=1 << 11, budget=budget):
            assert piece.keys[0].to_pylist() == [*range(first, first + len(piece.sets()))]
            first += len(piece.starts)
        peaks[budget] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert first == ROWS
    assert peaks[1 << 20] <= 1 << 20 < peaks[1 << 40], peaks


def test_leading_words_of_texts_ascend_as_texts_do_by_utf_16_unit() -> None:
    texts = ["", "\0", "a", "a\0", "abcdefg", "abcdefgh", "é", "\ud7ff", "\ue000", "\uffee", "\U0001f600", "\U0010ffff"]
    ordered = sorted(texts, key=lambda text: text.encode("utf-16-be"))
    column = Column("T", data_type("String"), Kind.NORMAL, Storage.BLOB, 1, "UTF_8")
    for array in (pa.array([None, *ordered]), pa.array([None, *ordered]).dictionary_encode()):
        words = LeadingWords(column).of(array)[0].tolist()
        assert words == sorted(words) and len(set(words)) >= len(texts) - 3
