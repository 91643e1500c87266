"""Saves of a user table that are stopped at every change of the disk, with and without loss of what was not synced."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven import open_table
from sparkhaven.store.errors import TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.users.save import SaveOptions, save_rows
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.disks.power_cut_fs import PowerCutFs
from tests.support.examples import some_of

Row = tuple[Any, ...]
SAVES = [("replace", range(3)), ("append", range(3, 5)), ("replace", range(10, 13)), ("append", range(13, 15))]
STATES: list[list[int]] = [[], [0, 1, 2], [0, 1, 2, 3, 4], [10, 11, 12], [10, 11, 12, 13, 14]]
STRIDE = int(os.environ.get("SPARKHAVEN_STRIDE", "4"))  # 1: before every change, which takes minutes
LAST = [100, 101]


class WithoutExchange(CrashingFs):
    """A file system that cannot swap two names."""

    def exchange(self, one: Path, other: Path) -> bool:
        return False


def rows(numbers: Any) -> pa.Table:
    """Every row can be told from its number, in each column."""
    listed = list(numbers)
    names = [f"name{number}" for number in listed]
    parts = [f"2026-11-2{number % 3}" for number in listed]
    return pa.table(
        {"N": pa.array(listed, pa.int64()), "Name": names, "Tags": [[name] for name in names], "Day": parts}
    )


def save(fs: Fs, root: Path, mode: Any, numbers: Any, by: str | None) -> None:
    save_rows(TablePlace(fs, Layout(root), TableName("me", "T")), rows(numbers), SaveOptions(mode, by))


def told(fs: Fs, root: Path, by: str | None) -> int:
    """Saves one after the other; how many returned before the process was stopped."""
    for number, (mode, numbers) in enumerate(SAVES):
        try:
            save(fs, root, mode, numbers, by)
        except Crash:
            return number
    return len(SAVES)


def content(root: Path) -> list[int]:
    """The numbers of the table; every column must agree with them."""
    try:
        table = open_table(root, "me.T", checksum_verify="open").to_arrow(
            ["N", "Name", "Tags", "Day"], dictionaries=False
        )
    except TableNotFoundError:
        return []
    table = table.sort_by("N")
    numbers: list[int] = table["N"].to_pylist()
    assert table.equals(rows(numbers).cast(table.schema)), table.to_pylist()
    return numbers


def check(root: Path, by: str | None, finished: int, where: str) -> None:
    """The table before the save that was stopped, or after it; then the next save finds it so, and tidies up.

    A new table, of which only the definition is missing, is finished by the next save.
    """
    found = content(root)
    assert found in STATES[finished : finished + 2], (where, finished, found)
    save(Fs(), root, "append", LAST, by)
    known = [found] if found else STATES[finished : finished + 2]
    assert content(root) in [state + LAST for state in known], where
    assert not list(root.rglob(".T.stage-*")), where
    (root / "Users/me/Definitions/T.tbl").stat()


@pytest.mark.slow
@pytest.mark.parametrize("by", [None, "Day"], ids=["splayed", "partitioned"])
def test_a_save_that_is_stopped_anywhere_is_whole_or_nothing(tmp_path: Path, by: str | None) -> None:
    whole = CrashingFs()
    assert told(whole, tmp_path / "whole", by) == len(SAVES)
    assert content(tmp_path / "whole") == STATES[-1]
    assert whole.changes > 100
    for number in some_of(range(0, whole.changes, STRIDE)):
        root = tmp_path / f"db{number}"
        check(root, by, told(CrashingFs(crash_after=number), root, by), f"stopped before change {number}")


@pytest.mark.slow
def test_a_save_that_is_stopped_is_whole_where_names_cannot_be_swapped(tmp_path: Path) -> None:
    whole = WithoutExchange()
    assert told(whole, tmp_path / "whole", None) == len(SAVES)
    for number in some_of(range(1, whole.changes, STRIDE)):
        root = tmp_path / f"db{number}"
        check(root, None, told(WithoutExchange(crash_after=number), root, None), f"stopped before change {number}")


@pytest.mark.slow
@pytest.mark.parametrize("by", [None, "Day"], ids=["splayed", "partitioned"])
@pytest.mark.parametrize("turn", range(2))
def test_a_power_cut_takes_no_save_that_returned(tmp_path: Path, by: str | None, turn: int) -> None:
    whole = CrashingFs()
    told(whole, tmp_path / "whole", by)
    for number in some_of(range(turn * 5, whole.changes + 1, 10)):
        root = tmp_path / f"db{number}"
        root.mkdir()
        fs = PowerCutFs(root, crash_after=number)
        finished = told(fs, root, by)
        fs.cut(number + turn)
        check(root, by, finished, f"cut {number + turn} before change {number}")


@pytest.mark.slow
@pytest.mark.parametrize("sabotage", ["file", "dir"])
def test_the_power_cuts_see_a_sync_that_is_left_out(tmp_path: Path, sabotage: str) -> None:
    lost = 0
    for seed in range(10):
        root = tmp_path / f"db{seed}"
        root.mkdir()
        fs = PowerCutFs(root, sabotage=sabotage)
        finished = told(fs, root, None)
        fs.cut(seed)
        try:
            lost += content(root) != STATES[finished]
        except Exception:  # damage that is found is what the test waits for
            lost += 1
    assert lost
