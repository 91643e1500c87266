"""What copies take for the same content: a change that leaves counts and digests of columns as they were is shipped."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven import open_table, save_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.format.table import table_size
from sparkhaven.store.layout import Layout
from sparkhaven.writers.partitions import add_partition
from tests.support.commands import run_json
from tests.support.readers.changed_history import CHANGES, NAME, SCHEMA, done, filled, merged, rows_of, table_of
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.user_intraday import LIVE, UserIntraday
from tests.support.tables.user_intraday import NAME as USER_INTRADAY
from tests.support.writers.merge_cases import DAY
from tests.support.writers.merge_runs import FS, merge


def outcome(root: Path, *words: str) -> dict[str, Any]:
    code, told = run_json(root, *words)
    assert code == 0, told
    return told


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_of_history_is_shipped_compared_and_taken_back(tmp_path: Path, change: str) -> None:
    root, mirror, copy = (tmp_path / name for name in ("db", "mirror", "copy"))
    merged(root).log.close()
    before = rows_of(open_table(root, NAME))
    outcome(root, "snapshot", "--out", str(copy))
    outcome(root, "mirror", str(root), str(mirror))
    words, other = CHANGES[change]
    done(root, *filled(words, tmp_path))
    after = rows_of(open_table(root, NAME))
    assert (after != before) == other
    for compared in (mirror, copy):
        assert run_json(root, "compare", str(compared))[1]["equal"] != other
    outcome(root, "mirror", str(root), str(mirror))
    assert rows_of(open_table(mirror, NAME)) == after
    assert outcome(root, "compare", str(mirror))["equal"]
    assert run_json(root, "restore", str(copy))[0] == 2, "the table has another generation than the snapshot"
    assert outcome(root, "restore", str(copy), "--replace", NAME)["outcome"] == "restored"
    assert rows_of(open_table(root, NAME)) == before
    assert outcome(root, "restore", str(copy), "--replace", NAME)["outcome"] == "present"
    assert outcome(root, "verify", "--deep")["errors"] == 0


def test_a_schema_that_was_changed_is_other_content(tmp_path: Path) -> None:
    root, copy = tmp_path / "db", tmp_path / "copy"
    merged(root).log.close()
    outcome(root, "snapshot", "--out", str(copy))
    assert outcome(root, "restore", str(copy))["outcome"] == "present"
    (tmp_path / "T.schema").write_bytes(SCHEMA.replace(b'name="Size"', b'name="Amount"'))
    done(root, "schema", "deploy", str(tmp_path / "T.schema"), "--rename", "Size=Amount")
    assert run_json(root, "restore", str(copy))[0] == 2
    assert outcome(root, "restore", str(copy), "--replace", NAME)["outcome"] == "restored"
    assert open_table(root, NAME).to_arrow("Size").num_rows == 12


def test_rows_of_a_user_table_that_exchange_values_are_shipped(tmp_path: Path) -> None:
    root, mirror = tmp_path / "db", tmp_path / "mirror"
    for sides in (["B", "S"], ["S", "B"]):
        save_table(root, "users.Saved", pa.table({"K": [1, 2], "Side": sides}))
        outcome(root, "mirror", str(root), str(mirror))
        shown = open_table(mirror, "users.Saved").to_arrow().to_pydict()
        assert Counter(zip(shown["K"], shown["Side"], strict=True)) == Counter(zip([1, 2], sides, strict=True))


def test_values_that_a_program_without_checksums_changes_are_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKHAVEN_USER_INTRADAY", USER_INTRADAY)
    root, mirror = tmp_path / "db", tmp_path / "mirror"
    location = UserIntraday(root).append("0", LIVE, 1, 2)
    size = table_size.load(FS, location)
    assert size is not None
    (location / "table.size").write_bytes(table_size.encode(replace(size, checksums={})))
    for last in (2, 7):
        rows = (location / "N.dat").read_bytes()
        (location / "N.dat").write_bytes(rows[:-8] + last.to_bytes(8, (rows[-1:] == b"\0" and "little") or "big"))
        outcome(root, "mirror", str(root), str(mirror))
        shown = [sorted(open_table(at, "me.T").to_arrow("N")["N"].to_pylist()) for at in (root, mirror)]
        assert shown[0] == shown[1] and last in shown[0]


def test_a_tree_that_was_brought_in_step_is_shipped(tmp_path: Path) -> None:
    """Without a new epoch and another generation."""
    root, mirror = tmp_path / "db", tmp_path / "mirror"
    db = IntradayRows(root, SCHEMA.replace(b"</Table>", b'<ExtendedStorage type="parquet:kv"/></Table>'), fs=FS)
    db.commit({("a", DAY): table_of(range(12))})
    db.log.close()
    add_partition(FS, db.layout, "Test", "0")
    merge(db.layout, table=db.table)
    outcome(root, "mirror", str(root), str(mirror))
    assert not db.layout.extended(db.table).exists() and not (mirror / "Systems/Test/Extended").exists()
    done(root, "merge", NAME, "--dates", DAY)
    assert db.layout.extended(db.table).exists()
    for _ in range(2):
        outcome(root, "mirror", str(root), str(mirror))
        assert [finding.text() for finding in verify(FS, Layout(mirror.resolve()), deep=True).findings] == []
        first = mirror.resolve()
    outcome(root, "mirror", str(root), str(mirror))
    assert mirror.resolve() == first, "nothing is shipped twice"
