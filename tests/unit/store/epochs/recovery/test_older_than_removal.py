"""An older ``.streams`` put back after its date was merged, truncated and deleted: the advice of the error works."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import CorruptFileError
from tests.support.commands import run, run_json
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.export_cases import NEXT
from tests.support.writers.merge_cases import DAY, TABLE, as_table, random_row
from tests.support.writers.merge_runs import make, merge
from tests.support.writers.removals import empty, unlink

NAME = str(TABLE)
ROW = as_table([random_row(random.Random(4))])


def restored(base: Path, *, later: bool) -> tuple[IntradayRows, int]:
    """A database whose ``.streams`` is from before the removal of a date; ``later``: and from before its last epoch."""
    db, _ = make(base, 20)
    db.commit({("a", NEXT): ROW})
    if later:
        copy(db)
        db.commit({("a", DAY): ROW})
    merge(db.layout)
    if not later:
        copy(db)
    empty(db)
    unlink(db)
    db.log.close()
    rows = open_table(base, NAME).to_arrow().num_rows
    shutil.rmtree(db.layout.streams(TABLE))
    shutil.copytree(base / "copy", db.layout.streams(TABLE))
    return db, rows


def copy(db: IntradayRows) -> None:
    shutil.copytree(db.layout.streams(TABLE), db.root / "copy")


@pytest.mark.slow
@pytest.mark.parametrize("later", [False, True], ids=["same epoch", "older epoch"])
def test_the_advice_can_be_followed(tmp_path: Path, later: bool) -> None:
    db, rows = restored(tmp_path, later=later)
    code, value = run_json(tmp_path, "recover", NAME)
    error = value["streams"][0]["error"]
    assert code == 1 and "is older than" in error["what"] and "--from-locations" in error["hint"], error
    assert (f"removal of a/{DAY}" if not later else f"the merge of {DAY}") in error["what"]
    with pytest.raises(CorruptFileError, match="is older than"):
        db.open()
    said = run(tmp_path, "verify", NAME)
    assert said.exit_code == 1 and "is older than" in said.stdout
    again = "recover", NAME, "rows", "--from-locations"
    code, planned = run_json(tmp_path, *again, "--dry-run")
    assert code == 0 and planned["rebuilt"]["positions"] == ("unknown" if later else "known")
    settle = ("--accept-positions",) if later else ()
    assert run_json(tmp_path, *again, *settle)[0] == 0
    state = load_stream(db.place)
    assert {key.value for key in state.locations} == {NEXT}
    assert open_table(tmp_path, NAME).to_arrow().num_rows == rows
    assert run_json(tmp_path, "verify", NAME, "--deep")[1]["errors"] == 0
    db.symbols.clear()
    db.log = db.open()
    db.commit({("a", DAY): ROW, ("b", NEXT): ROW})
    assert open_table(tmp_path, NAME).to_arrow().num_rows == rows + 2
    assert merge(db.layout)[0].outcome == "supplement"
    assert open_table(tmp_path, NAME).to_arrow().num_rows == rows + 2


def test_history_is_read_meanwhile(tmp_path: Path) -> None:
    _, rows = restored(tmp_path, later=False)
    assert open_table(tmp_path, NAME).count(tier="history") == rows - 1
