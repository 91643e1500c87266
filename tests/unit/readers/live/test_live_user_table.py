"""Tables that users have saved, as an engine sees them: the rows of one save, then those of the next."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven import save_table
from sparkhaven.store.errors import SnapshotMovedError
from tests.support.tables.live_tables import Engine

BOTH = pytest.mark.parametrize("by", [None, "Day"], ids=["splayed", "partitioned"])


def rows(*numbers: int) -> pa.Table:
    days = [f"2026-01-0{number % 2 + 1}" for number in numbers]
    return pa.table({"Day": days, "N": pa.array(numbers, pa.int64()), "Text": [f"t{number}" for number in numbers]})


def save(root: Path, by: str | None, mode: str, *numbers: int) -> None:
    save_table(root, "me.T", rows(*numbers), mode=mode, partition_by=by)  # type: ignore[arg-type]


@BOTH
def test_its_rows_and_after_a_save_those_of_that_one(tmp_path: Path, by: str | None) -> None:
    save(tmp_path, by, "replace", 1, 2, 3)
    engine = Engine(tmp_path)
    attached = engine.attach("me_T")
    assert sorted(attached.column("N")) == [1, 2, 3] and sorted(attached.column("Text")) == ["t1", "t2", "t3"]
    assert {*attached.values.values()} == ({""} if by is None else {"2026-01-01", "2026-01-02"})
    engine.look(1.0)
    assert attached.errors == []
    for mode, numbers, shown in (("append", (4,), [1, 2, 3, 4]), ("replace", (8, 9), [8, 9])):
        save(tmp_path, by, mode, *numbers)
        engine.look(1.0)
        assert [type(error) for error in attached.errors][:1] == [SnapshotMovedError]
        assert "me.T: the served table has ended (it was saved again)" in engine.notes[-1]
        engine.look(1.0)
        attached = engine.attach("me_T")
        assert sorted(attached.column("N")) == shown


@BOTH
def test_between_two_looks_no_row_of_another_save_is_given(tmp_path: Path, by: str | None) -> None:
    save(tmp_path, by, "replace", 1, 2, 3)
    engine = Engine(tmp_path)
    attached = engine.attach("me_T")
    save(tmp_path, by, "replace", 7, 8, 9)
    with pytest.raises(SnapshotMovedError, match="saved again"):
        attached.column("N")


@BOTH
def test_what_was_mapped_before_a_save_stays_until_the_next_look(tmp_path: Path, by: str | None) -> None:
    save(tmp_path, by, "replace", 1, 2, 3)
    engine = Engine(tmp_path)
    attached = engine.attach("me_T")
    assert sorted(attached.column("N")) == [1, 2, 3]
    save(tmp_path, by, "replace", 7, 8, 9)
    assert sorted(attached.column("N")) == [1, 2, 3]


def test_a_table_that_is_saved_while_others_are_served_is_offered(tmp_path: Path) -> None:
    save(tmp_path, None, "replace", 1)
    engine = Engine(tmp_path)
    save_table(tmp_path, "me.Later", rows(5))
    engine.look(1.0)
    assert engine.attach("me_Later").column("N") == [5]
    assert engine.root.tables == {"me.T": "me_T", "me.Later": "me_Later"}
    named = Engine(tmp_path, "me.Later")
    assert named.root.tables == {"me.Later": "me_Later"}
