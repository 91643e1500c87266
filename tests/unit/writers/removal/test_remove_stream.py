"""The removal of a stream, killed at each of its calls to the disk: nothing is damaged, and a repeat finishes it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.readers.streams import table_streams
from sparkhaven.store.epochs.reading.load import list_streams
from sparkhaven.store.errors import TableNotFoundError
from sparkhaven.store.layout import Layout
from sparkhaven.writers.removal.streams import remove_stream
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, Killed, KillingFs, make, merge
from tests.support.writers.removals import NOW, empty, unlink

RNG = random.Random(7)


class EachCall(KillingFs):
    """Counts what is unlinked, too."""

    def unlink(self, path: Path) -> None:
        self._count()
        super().unlink(path)

    def rmdir(self, path: Path) -> bool:
        self._count()
        return super().rmdir(path)

    def sync(self, paths: Any) -> None:
        self._count()
        super().sync(paths)


def never_committed(root: Path) -> None:
    IntradayRows(root, SCHEMA, fs=FS).log.close()


def merged_and_deleted(root: Path) -> None:
    db, _ = make(root, 12)
    merge(db.layout)
    empty(db)
    unlink(db)
    db.log.write_head()
    db.log.compact_if_due(now=True)
    db.log.close()


def remove(layout: Layout, fs: KillingFs) -> None:
    remove_stream(fs, layout, TABLE, "rows", clock=lambda: NOW)


def sound(layout: Layout, rows: int) -> None:
    found = open_table(layout.root, str(TABLE), fs=FS).to_arrow().num_rows
    assert found == rows
    findings = [one for one in verify(FS, layout, TABLE, deep=True).findings if one.severity != "note"]
    assert findings == []


@pytest.mark.slow
@pytest.mark.parametrize(("case", "rows"), [(never_committed, 0), (merged_and_deleted, 12)])
def test_a_removal_killed_at_any_call_damages_nothing_and_is_repeated(tmp_path: Path, case: Any, rows: int) -> None:
    original = tmp_path / "original"
    case(original)
    counting = EachCall()
    shutil.copytree(original, tmp_path / "whole", symlinks=True)
    remove(Layout(tmp_path / "whole"), counting)
    left_by_one = names(tmp_path / "whole")
    assert counting.calls > 12
    for call in range(1, counting.calls + 1):
        for repeat in (True, False):
            root = tmp_path / f"{call}-{repeat}"
            shutil.copytree(original, root, symlinks=True)
            layout = Layout(root)
            with pytest.raises(Killed):
                remove(layout, EachCall(call=call))
            sound(layout, rows)
            if repeat:
                is_listed = bool(table_streams(FS, layout, TABLE))
                try:
                    remove(layout, EachCall())
                except TableNotFoundError:
                    assert not is_listed
                assert table_streams(FS, layout, TABLE) == []
                assert names(root) == left_by_one, call
                sound(layout, rows)
            begin_again(root, rows)
            shutil.rmtree(root)


def begin_again(root: Path, rows: int) -> None:
    """A stream of the same name takes rows, and merges them, beside what was merged before."""
    db = IntradayRows(root, SCHEMA, fs=FS)
    assert dict(db.log.state.locations) == {}
    db.commit({("a", DAY): as_table([random_row(RNG) for _ in range(5)])})
    sound(db.layout, rows + 5)
    db.log.close()
    assert not db.layout.stream_removed(TABLE, "rows").exists()
    assert list_streams(FS, db.layout, TABLE) == ["rows"]


def names(root: Path) -> list[str]:
    """Files of intraday and caches; a removal has written nothing else."""
    files = (path for path in root.rglob("*") if path.is_file() and "Systems" not in path.parts)
    return sorted(str(path.relative_to(root)) for path in files)
