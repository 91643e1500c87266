"""A date of many pieces is parted first, so that each source is read once; what comes out is the same to the byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.errors import CorruptFileError, ValidationFailedError
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.sources.merge_source import BlockSizes
from sparkhaven.writers.merge.sources.sort_keys import SortKey
from sparkhaven.writers.merge.write import work_shares
from tests.support.disks.model_fs import QuickFs
from tests.support.writers.merge_cases import DAY
from tests.support.writers.merge_runs import FS, history_bytes, make, merge

SORT = (SortKey("T"), SortKey("L", descending=True))
PIECES = 7


class WatchingFs(QuickFs):
    """Counts what is parted, and changes a byte of it."""

    def __init__(self, damage: str = "") -> None:
        self.damage, self.parted = damage, 0
        self.blocks: list[Path] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return WatchingFs, (self.damage,)

    def read_block(self, path: Path, offset: int, length: int) -> bytes:
        self.blocks.append(path)
        return super().read_block(path, offset, length)

    def write_at(self, path: Path, offset: int, data: bytes | memoryview) -> None:
        if path.parent.name.startswith("part-"):
            self.parted += 1
            if path.name == self.damage and (offset or path.suffix == ".bytes"):
                data = bytes([*bytes(data[:-1]), data[-1] ^ 1])
                self.damage = ""
        super().write_at(path, offset, data)


@pytest.fixture(autouse=True)
def _pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MergePlan, "ranges", lambda _: PIECES)
    monkeypatch.setattr(MergePlan, "by_columns", lambda _: False)


def merged(root: Path, fs: Fs = FS, *, seed: int = 1, **options: Any) -> dict[str, bytes]:
    db, _ = make(root, 400, seed=seed)
    merge(db.layout, fs=fs, sort=SORT, **{"sizes": BlockSizes(rows=37, parted_rows=37), **options})
    return history_bytes(db.layout)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("form", ["deephaven", "both"])
@pytest.mark.parametrize("workers", [1, 3])
def test_the_same_bytes_as_from_the_sources_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, form: str, workers: int
) -> None:
    watching = WatchingFs()
    sizes = BlockSizes(rows=37, parted_rows=37, chunk_bytes=1)  # each text is larger than what is written at once
    parted = merged(tmp_path / "one", watching, seed=seed, format=form, workers=workers, sizes=sizes)
    assert watching.parted
    assert not list(tmp_path.rglob("part-*"))
    monkeypatch.setattr(work_shares, "is_worth_parting", lambda *_: False)
    watching = WatchingFs()
    assert parted == merged(tmp_path / "other", watching, seed=seed, format=form, workers=workers)
    assert not watching.parted


def test_sources_are_read_without_what_lies_beside_a_block(tmp_path: Path) -> None:
    watching = WatchingFs()
    parted = merged(tmp_path / "one", watching)
    assert {"L.dat", "Sym.dat", "Note.dat", "Note.bytes"} <= {path.name for path in watching.blocks}
    assert all("Intraday" in path.parts for path in watching.blocks)
    watching, sizes = (
        WatchingFs(),
        BlockSizes(rows=37, parted_rows=37, copied_bytes=0),
    )  # blocks that are too large are mapped
    assert parted == merged(tmp_path / "other", watching, sizes=sizes) and not watching.blocks


def test_a_date_that_was_merged_is_parted_too(tmp_path: Path) -> None:
    """Its rows come from history, in either format, and those of a second feed from intraday."""
    for form in ("deephaven", "parquet"):
        db, _ = make(tmp_path / form, 300)
        merge(db.layout, sort=SORT, format=form)
        before = history_bytes(db.layout)
        watching = WatchingFs()
        merge(db.layout, fs=watching, sort=SORT, rewrite=True, sizes=BlockSizes(rows=50))
        assert watching.parted
        assert {name.rpartition("/")[2] for name in before} == {
            name.rpartition("/")[2] for name in history_bytes(db.layout)
        }


@pytest.mark.parametrize("name", ["L.dat", "Note.bytes", "Sym.dat"])
def test_a_byte_that_changes_between_is_found_by_the_digests(tmp_path: Path, name: str) -> None:
    db, _ = make(tmp_path, 300)
    with pytest.raises((ValidationFailedError, CorruptFileError)):
        merge(db.layout, fs=WatchingFs(name), sort=SORT)
    assert DAY not in str(sorted(history_bytes(db.layout)))


@pytest.mark.parametrize("kind", [".dat", ".bytes"])
def test_a_source_that_is_not_as_committed_is_named(tmp_path: Path, kind: str) -> None:
    db, _ = make(tmp_path, 300)
    paths = sorted(path for path in (tmp_path / "Intraday").rglob(f"*{kind}") if path.stat().st_size)
    for path in paths:
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises((CorruptFileError, ValidationFailedError)):
            merge(db.layout, sort=SORT)
        path.write_bytes(whole)
    merge(db.layout, sort=SORT)
