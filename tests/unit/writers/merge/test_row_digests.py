"""The digest of rows that a merge keeps is that of the rows that readers find, whatever they are stored as."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.digest import add, digest_rows, from_hex, row_hashes, to_hex
from sparkhaven.store.errors import ValidationFailedError
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.writers.merge.sources.merge_source import SIZES
from sparkhaven.writers.merge.write import phases as row_check
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers import coded_rows
from tests.support.writers.merge_cases import DAY
from tests.support.writers.merge_runs import FS, make, merge


def read_digest(place: TablePlace, **where: Any) -> str:
    """That of the rows as Arrow has them."""
    schema = load_deployed(place)
    table = open_table(place.layout.root, str(place.table)).to_arrow(**where).combine_chunks()
    arrays: list[pa.Array] = [
        table[c.name].chunk(0) if len(table) else pa.array([], c.type.arrow) for c in schema.stored
    ]
    return to_hex(digest_rows(row_hashes(schema.stored, arrays, len(table))))


def recorded(place: TablePlace, value: str = DAY) -> str:
    record = newest(place, value)
    assert record is not None
    return to_hex(add(*(from_hex(output.row_digest) for output in record.outputs)))


@pytest.mark.parametrize("form", ["deephaven", "parquet", "both"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_record_has_the_digest_of_its_rows(tmp_path: Path, form: str, workers: int) -> None:
    db, _ = make(tmp_path, 300)
    whole = read_digest(db.place)
    sizes = replace(SIZES, rows=32, texts=16)
    merge(db.layout, format=form, workers=workers, parallel_rows=1, sizes=sizes)
    record = newest(db.place, DAY)
    assert record is not None and len(record.outputs) == 2
    assert recorded(db.place) == whole == read_digest(db.place)


@pytest.mark.parametrize("form", ["deephaven", "parquet", "both"])
def test_of_columns_with_codecs(tmp_path: Path, form: str) -> None:
    db = IntradayRows(tmp_path, coded_rows.SCHEMA, fs=FS)
    chance = random.Random(7)
    rows = [coded_rows.coded_row(chance, number) for number in range(60)]
    db.commit({("a", coded_rows.DAY): coded_rows.coded_table(load_deployed(db.place), rows)})
    whole = read_digest(db.place)
    merge(db.layout, coded_rows.DAY, table=coded_rows.TABLE, format=form)
    assert recorded(db.place, coded_rows.DAY) == whole


def test_other_order_and_partitions_give_the_same(tmp_path: Path) -> None:
    found = set()
    for number in (1, 3):
        db, _ = make(tmp_path / str(number), 200, partitions=number)
        merge(db.layout, sort=())
        found.add(recorded(db.place))
    assert len(found) == 1


def test_parquet_with_other_rows_than_the_column_files_beside_it_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, _ = make(tmp_path, 40)
    real = row_check.check_parquet_rows
    monkeypatch.setattr(
        "sparkhaven.writers.merge.write.phases.check_parquet_rows",
        lambda fs, task: replace(real(fs, task), digest=5),
    )
    with pytest.raises(ValidationFailedError, match="other rows than the column files beside it"):
        merge(db.layout, format="both")
    assert newest(db.place, DAY) is None
