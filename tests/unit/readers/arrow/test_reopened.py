"""A table that is opened again in one process: what has changed between two openings is seen, whatever was kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.scan.selection import Selection, Tier
from tests.support.commands import run
from tests.support.tables.small_tables import SCHEMA, SmallTable

D1, D2 = "2026-11-20", "2026-11-21"

pytestmark = pytest.mark.slow


def test_each_change_between_two_openings_is_seen(tmp_path: Path) -> None:
    small, root = SmallTable(tmp_path / "db"), tmp_path / "db"

    def shown(span: str) -> list[int]:
        """Rows of dates in all tiers, in history, and in intraday, at a second opening."""
        tiers: tuple[Tier, ...] = ("all", "history", "intraday")
        first, again = (
            [opened.to_arrow(dates=[span], tier=tier).num_rows for tier in tiers]
            for opened in (open_table(root, "NS.T"), open_table(root, "NS.T"))
        )
        assert first == again
        return again

    def command(*words: str) -> None:
        done = run(root, *words)
        assert done.exit_code == 0, done.stdout + done.stderr

    span = f"{D1}..{D1}"
    small.add("a", D1, {"Sym": ["X"], "Size": [1]})
    assert shown(span) == [1, 0, 1]
    small.add("a", D1, {"Sym": ["Y"], "Size": [2]})
    assert shown(span) == [2, 0, 2]
    small.add("b", D2, {"Sym": ["Y"], "Size": [2]})
    small.log().rollback(2)
    assert open_table(root, "NS.T").count() == 2
    small.log().close()
    del small.logs["s"]

    schema = tmp_path / "NS.T.schema"
    schema.write_text(SCHEMA.replace("</Table>", '<Column name="More" dataType="long"/></Table>'))
    assert "More" not in open_table(root, "NS.T").to_arrow().column_names
    command("schema", "deploy", str(schema))
    assert open_table(root, "NS.T").to_arrow(dates=[D1])["More"].null_count == 2

    command("partitions", "add", "NS", "0")
    command("merge", "NS.T", "--dates", D1, "--local")
    assert shown(span) == [2, 2, 2]
    command("truncate", "NS.T", "--dates", D1)
    assert shown(span) == [2, 2, 0]
    command("delete", "NS.T", "--dates", D1, "--grace", "0")
    assert shown(span) == [2, 2, 0]

    stream = small.place.of_stream("s")
    removals, log = stream.stream_removals, stream.stream_log
    data, times = removals.read_bytes(), removals.stat()
    changed = bytearray(data)
    changed[len(data) // 2] ^= 1
    removals.write_bytes(changed)  # the same inode, size and modification time: the time of the change is another
    os.utime(removals, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(CorruptFileError):
        open_table(root, "NS.T")
    removals.write_bytes(data)
    assert shown(span) == [2, 2, 0]
    log.rename(log.with_suffix(".away"))
    with pytest.raises(CorruptFileError, match="log of stream 's' is missing"):
        open_table(root, "NS.T")


def test_named_values_are_those_that_each_of_them_takes() -> None:
    values = {"2026-11-20", "2026-11-21", "2026-12-01", "other"}
    for asked in (None, ["other"], ["2026-11-21", "2026-11-20"], ["2026-11-20..2026-11-30", "other"], ["none"], []):
        selection = Selection.of(asked, None)
        assert selection.taken(values) == sorted(value for value in values if selection.takes_value(value))
