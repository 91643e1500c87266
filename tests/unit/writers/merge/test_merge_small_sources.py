"""Many small sources are read together: the same bytes come out, and damage is said as if each were opened alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.column.prefix import charset_of, encode_prefix
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.native.files import read_files
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.writers.merge.plan import open_source
from sparkhaven.writers.merge.sources.merge_source import SIZES, BlockSizes
from sparkhaven.writers.merge.sources.sort_keys import SortKey
from sparkhaven.writers.partitions import add_partition
from tests.support.disks.contents import flip
from tests.support.disks.model_fs import QuickFs
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, history_bytes, merge

SOURCES = 9
SORT = (SortKey("D", True), SortKey("Venue"))
ONE_BY_ONE = BlockSizes(small_sources=1000)
WAYS = {"together": SIZES, "single": ONE_BY_ONE}


def make(root: Path, partitions: int = 1) -> IntradayRows:
    rng = random.Random(8)
    db = IntradayRows(root, SCHEMA, fs=FS)
    rows = {(f"s{number:02d}", DAY): [random_row(rng) for _ in range(30 + number)] for number in range(SOURCES)}
    for some in rows.values():
        some[0] |= dict.fromkeys(("Sym", "Venue", "Note"), "a")  # each source has texts of each column
    db.commit({key: as_table(some) for key, some in rows.items()})
    for name in range(partitions):
        add_partition(FS, db.layout, "Test", str(name))
    return db


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were read together."""
    found: list[str] = []

    def noted(fs: Any, paths: list[str], *rest: Any) -> Any:
        found.extend(paths)
        return read_files(fs, paths, *rest)

    monkeypatch.setattr(open_source, "read_files", noted)
    return found


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("sort", [(), SORT])
def test_the_same_bytes_as_one_by_one(
    tmp_path: Path, asked: list[str], partitions: int, workers: int, sort: Any
) -> None:
    together = make(tmp_path / "together", partitions).layout
    merge(together, sort=sort, workers=workers)
    fixed = {"D.dat", "T.dat", "Flag.dat", "C.dat", "Sym.dat", "Sym.sym", "Venue.sym.bytes"}
    for name in fixed:
        assert len({path for path in asked if path.endswith(f"/{name}")}) == SOURCES
    asked.clear()
    single = make(tmp_path / "single", partitions).layout
    merge(single, sort=sort, sizes=ONE_BY_ONE)
    assert not asked
    assert history_bytes(together) == history_bytes(single)


def _shorter(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _of_another(path: Path) -> None:
    name = path.name.replace("D.", "T.").replace("Sym.", "Venue.", 1)
    path.write_bytes(path.with_name(name).read_bytes())


DAMAGES: dict[str, Callable[[Path], object]] = {
    "last byte": lambda path: flip(path, -1),
    "first byte": lambda path: flip(path, 0),
    "third byte": lambda path: flip(path, 2),
    "shorter": _shorter,
    "empty": lambda path: path.write_bytes(b""),
    "missing": lambda path: path.unlink(),
    "directory": _directory,
    "loop": _loop,
    "of another column": _of_another,
}


@pytest.mark.campaign
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["D.dat", "Sym.dat", "Sym.sym", "Sym.sym.bytes"])
def test_damage_of_one_file_is_said_as_if_it_were_alone(
    tmp_path: Path, asked: list[str], name: str, damage: str
) -> None:
    layout = make(tmp_path).layout
    path = layout.intraday_location(TABLE, LocationKey("s04", DAY)) / name
    DAMAGES[damage](path)
    with pytest.raises((SparkhavenError, OSError)) as together:
        merge(layout, sort=SORT, workers=2)
    assert str(path) in asked
    with pytest.raises((SparkhavenError, OSError)) as alone:
        merge(layout, sort=SORT, sizes=ONE_BY_ONE)
    assert (type(together.value), str(together.value)) == (type(alone.value), str(alone.value))
    assert "s04" in str(together.value)
    assert history_bytes(layout) == {}


def test_texts_of_another_charset_are_decoded_as_their_column_says(tmp_path: Path, asked: list[str]) -> None:
    layout = make(tmp_path).layout
    column = load_deployed(TablePlace(FS, layout, TABLE)).column("Sym")
    assert column is not None
    assert charset_of(column) != "US_ASCII"
    head = encode_prefix(replace(column, encoding="US_ASCII"))
    FS.write_at(layout.intraday_location(TABLE, LocationKey("s04", DAY)) / "Sym.dat", 0, head)
    found = []
    for sizes in WAYS.values():
        with pytest.raises(SparkhavenError, match="US_ASCII") as caught:
            merge(layout, verify_sources=False, sizes=sizes)
        found.append(str(caught.value))
        assert asked
    assert found[0] == found[1]


def test_rows_that_come_later_are_merged_alone(tmp_path: Path) -> None:
    found = []
    for way, sizes in WAYS.items():
        db = make(tmp_path / way)
        merge(db.layout, sort=SORT, sizes=sizes)
        rng = random.Random(9)
        db.commit({(f"s{number:02d}", DAY): as_table([random_row(rng) for _ in range(7)]) for number in range(SOURCES)})
        (result,) = merge(db.layout, sizes=sizes)
        assert (result.outcome, result.rows_in) == ("supplement", 7 * SOURCES)
        found.append(history_bytes(db.layout))
    assert found[0] == found[1]


def test_without_verification_only_what_decodes_is_merged(tmp_path: Path, asked: list[str]) -> None:
    layout = make(tmp_path).layout
    flip(layout.intraday_location(TABLE, LocationKey("s04", DAY)) / "L.dat", -1)
    merge(layout, sort=SORT, verify_sources=False)
    assert asked


def test_without_verification_an_id_of_no_symbol_is_still_damage(tmp_path: Path) -> None:
    layout = make(tmp_path).layout
    flip(layout.intraday_location(TABLE, LocationKey("s04", DAY)) / "Venue.dat", -1)
    found = []
    for sizes in WAYS.values():
        with pytest.raises(SparkhavenError, match="symbol index of column Venue is out of range") as caught:
            merge(layout, verify_sources=False, workers=2, sizes=sizes)
        found.append(str(caught.value))
    assert found[0] == found[1]


class Changing(QuickFs):
    """A file is damaged after it was read for the n-th time together with others."""

    def __init__(self, path: Path, reads: int) -> None:
        self.path, self.left = path, reads

    def read_together(self, paths: Any, read: Any) -> Any:
        found = super().read_together(paths, read)
        if str(self.path) in paths:
            self.left -= 1
            if self.left == 0:
                flip(self.path, -1)
        return found


@pytest.mark.parametrize("reads", [1, 2])
def test_a_file_that_changes_between_two_reads_is_damage(tmp_path: Path, reads: int) -> None:
    """It is read for its order, then to be written: only what had its checksum each time needs no look at the end."""
    layout = make(tmp_path).layout
    path = layout.intraday_location(TABLE, LocationKey("s04", DAY)) / "D.dat"
    fs = Changing(path, reads)
    if reads == 2:  # all bytes that were used were right
        merge(layout, sort=SORT, fs=fs)
        assert fs.left == 0
        return
    with pytest.raises(SparkhavenError, match="differs from what was committed"):
        merge(layout, sort=SORT, fs=fs)


def test_files_that_were_verified_are_not_read_for_it_again(tmp_path: Path) -> None:
    class Counting(QuickFs):
        ranges: list[str] = []

        def read_range(self, path: Path, offset: int, length: int) -> bytes:
            self.ranges.append(path.name)
            return super().read_range(path, offset, length)

    layout = make(tmp_path).layout
    merge(layout, sort=SORT, fs=Counting())
    sources = [name for name in Counting.ranges if name in ("L.dat", "T.dat", "Flag.dat")]
    assert len(sources) <= 3 * 2, "but for what was written, nobody reads them by themselves"


def test_rows_beside_many_small_sources(tmp_path: Path) -> None:
    """Sources that are large, cut, or without a column are opened by themselves among the others."""
    found = []
    for way, sizes in WAYS.items():
        layout = make(tmp_path / way).layout
        merge(layout, sort=SORT, sizes=replace(sizes, small_bytes=300))  # some files are larger
        found.append(history_bytes(layout))
    assert found[0] == found[1]
