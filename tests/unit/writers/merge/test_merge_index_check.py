"""A merge proves its indexes: one that is not that of the rows is not published. Each goes with its location."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkhaven.store.errors import ValidationFailedError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.layout import LocationKey
from sparkhaven.writers.partitions import add_partition
from tests.support.commands import run_json
from tests.support.disks.model_fs import QuickFs
from tests.support.tables import naive_reader
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.naive_rowset import naive_ranges
from tests.support.writers.merge_cases import DAY, SCHEMA, as_table, comparable, random_row, read_location
from tests.support.writers.merge_runs import FS, merge

INDEXED = SCHEMA.replace(b"</Table>", b'<DataIndex columns="S"/><DataIndex columns="L,Venue"/></Table>')


class ChangingFs(QuickFs):
    """Writes other bytes into one file."""

    def __init__(self, name: str, change: Callable[[bytes], bytes]) -> None:
        self.name, self.change, self.changed = name, change, False

    def write_at(self, path: Path, offset: int, data: bytes | memoryview) -> None:
        if str(path).endswith(self.name):
            changed = self.change(bytes(offset) + bytes(data))[offset:]
            assert len(changed) == len(data)
            self.changed |= changed != data
            data = changed
        super().write_at(path, offset, data)


def indexed(root: Path) -> IntradayRows:
    rng = random.Random(3)
    db = IntradayRows(root, INDEXED, fs=FS)
    db.commit({("a", DAY): as_table([random_row(rng) for _ in range(300)])})
    add_partition(FS, db.layout, "Test", "0")
    return db


def moved(data: bytes) -> bytes:
    """The first two numbers exchanged."""
    return data[:4096] + data[4104:4112] + data[4096:4104] + data[4112:]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["deephaven", "parquet"])
@pytest.mark.parametrize(
    ("name", "change", "what"),
    [
        ("Index-Sym/Sym.bytes", lambda data: data.replace(b"zz", b"zy"), "another Sym than its key"),
        ("Index-Sym/Sym.bytes", lambda data: data.replace(b"zz", b"0z"), "do not ascend"),
        ("Index-Sym/dh_begin_pos.dat", moved, "those of another key"),
        ("Index-S/S.dat", lambda data: data[:-2] + b"\x06\x00", "another S than its key"),
        ("Index-S/dh_row_set.bytes", lambda data: data[:-1] + b"\x28", "unknown command"),
        ("Index-L,Venue/L.dat", lambda data: data[:4096] + data[-8:] + data[4104:], "do not ascend"),
    ],
)
def test_an_index_of_other_rows_is_not_published(
    tmp_path: Path, form: str, name: str, change: Callable[[bytes], bytes], what: str
) -> None:
    db = indexed(tmp_path)
    fs = ChangingFs(name, change)
    with pytest.raises(ValidationFailedError, match=what) as caught:
        merge(db.layout, fs=fs, format=form)
    assert fs.changed and caught.value.phase == "check"
    assert not list(db.layout.partitions("Test").rglob("table.size"))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["deephaven", "both"])
def test_an_independent_reader_finds_the_rows_of_each_key(tmp_path: Path, form: str) -> None:
    db = indexed(tmp_path)
    merge(db.layout, format=form)
    rows = read_location(db.layout, db.schema, LocationKey("0", DAY), FS)
    location = next(db.layout.partitions("Test").rglob("Index-S")).parent
    size = table_size.load(FS, location)
    assert size is not None and sorted(size.data_indexes) == ["Index-L,Venue", "Index-S", "Index-Sym"]
    for directory, kinds in (("Index-S", {"S": "short"}), ("Index-L,Venue", {"L": "long", "Venue": "blob"})):
        count = size.data_indexes[directory]
        keys = [naive_reader.read(location / directory, name, kind, count) for name, kind in kinds.items()]
        ends = naive_reader.read(location / directory, "dh_row_set", "long", count)
        data = (location / directory / "dh_row_set.bytes").read_bytes()
        sets = [naive_ranges(data[start:stop]) for start, stop in zip([0, *ends[:-1]], ends, strict=True)]
        wanted: dict[tuple[object, ...], list[int]] = {}
        for number, row in enumerate(rows):
            wanted.setdefault(tuple(comparable(row[name]) for name in kinds), []).append(number)
        listed = [[row for first, last in ranges for row in range(first, last + 1)] for ranges in sets]
        assert dict(zip(zip(*keys, strict=True), listed, strict=True)) == wanted


@pytest.mark.slow
def test_indexes_go_with_their_location_and_verify_sees_damage(tmp_path: Path) -> None:
    db = indexed(tmp_path)
    merge(db.layout)
    merge(db.layout, rewrite=True)
    names = {path.parent.parent.parent.name for path in db.layout.partitions("Test").rglob("Index-S")}
    assert names == {"0", "0.g2"}
    assert run_json(tmp_path, "verify", "Test.Every", "--deep")[0] == 0
    path = next(path for path in db.layout.partitions("Test").rglob("Index-L,Venue") if "0.g2" in str(path))
    with (path / "dh_row_set.bytes").open("r+b") as file:
        file.write(b"\x28")
    code, found = run_json(tmp_path, "verify", "Test.Every", "--deep")
    errors = [Path(finding["path"]).name for finding in found["findings"] if finding["severity"] == "error"]
    assert (code, errors) == (1, ["dh_row_set.bytes"])
