"""Scratch directories: a start removes what a killed process has left."""

from __future__ import annotations

from pathlib import Path

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.writers.batch.scratch import remove_stale_scratch

FS, TABLE = Fs(), TableName("Ns", "T")


def test_scratch_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    mine, other = (tmp_path / ".scratch" / "Ns.T" / stream / "1-0-0" for stream in ("s", "other"))
    for batch in (mine, other):
        batch.mkdir(parents=True)
        (batch / "open").touch()
    remove_stale_scratch(StreamPlace(FS, Layout(tmp_path), TABLE, "s"))
    assert not mine.parent.exists()
    assert other.exists()
