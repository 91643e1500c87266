"""Damaged column chunks are errors. Asked for by PyArrow, each of them would end the process."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.ingest.content.raw_file import PlannedFile
from sparkhaven.ingest.feeds.files.formats.parquet_files import first_rows
from sparkhaven.store.errors import CorruptFileError, FeedError
from sparkhaven.store.format.parquet.footer import ANY_SIZE, checked_chunks
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.parquet_file import CommittedParquet
from tests.support.ingest.ingest_cases import file_id, schema

OPTIONAL, REQUIRED = (b"\x15\x0a\x25" + repetition + b"\x18\x01k" for repetition in (b"\x02", b"\x00"))
"""A leaf ``k`` of doubles in a footer. Of a required one the histograms of its levels have another size."""


def sound() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2], "k": [1.5, None]}), out)
    return out.getvalue()


def damaged() -> bytes:
    data = sound()
    assert data.count(OPTIONAL) == 1
    return data.replace(OPTIONAL, REQUIRED)


def test_sound_chunks_are_those_of_the_file() -> None:
    data = sound()
    file = pq.ParquetFile(io.BytesIO(data))
    assert checked_chunks(file.metadata, len(data)) is file.metadata
    assert checked_chunks(file.metadata, ANY_SIZE) is file.metadata


def test_no_page_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(sound())
    metadata = pq.read_metadata(path)
    path.unlink()
    assert checked_chunks(metadata, 1 << 20).row_group(0).column(1).path_in_schema == "k"


def test_a_damaged_chunk_is_an_error() -> None:
    data = damaged()
    with pytest.raises(OSError, match="histogram size mismatch"):
        checked_chunks(pq.ParquetFile(io.BytesIO(data)).metadata, len(data))


def test_a_chunk_of_every_row_group_is_looked_at() -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"a": range(8)}), out, row_group_size=2)
    metadata = pq.ParquetFile(io.BytesIO(out.getvalue())).metadata
    last = metadata.row_group(3).column(0)
    end = last.dictionary_page_offset + last.total_compressed_size
    assert checked_chunks(metadata, end).num_row_groups == 4
    with pytest.raises(OSError, match="corrupt file"):
        checked_chunks(metadata, end - 1)


def test_a_feed_refuses_the_file_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(damaged())
    with pytest.raises(FeedError, match="damaged") as caught:
        first_rows(PlannedFile(Fs(), file_id(path)), 5)
    assert caught.value.where == str(path)


def test_a_merge_refuses_the_file_by_name() -> None:
    column = schema(k="double").column("k")
    assert column is not None
    rows = CommittedParquet(Path("/d/table.parquet"), pa.py_buffer(damaged()), 2)
    with pytest.raises(CorruptFileError) as caught:
        rows.uncompressed(column)
    assert "table.parquet" in str(caught.value.where)


def test_no_mutated_footer_ends_the_process() -> None:
    data = sound()
    size = int.from_bytes(data[-8:-4], "little")
    refused = 0
    for seed in range(2000):
        chance = random.Random(seed)
        changed = bytearray(data)
        changed[len(data) - 8 - chance.randrange(1, size)] ^= 1 << chance.randrange(8)
        try:
            metadata = checked_chunks(pq.ParquetFile(io.BytesIO(changed)).metadata, len(changed))
            for group in range(metadata.num_row_groups):
                row_group = metadata.row_group(group)
                assert all(row_group.column(number).path_in_schema for number in range(row_group.num_columns))
        except (pa.ArrowException, OSError, UnicodeDecodeError, AssertionError):
            refused += 1
    assert 0 < refused < 2000
