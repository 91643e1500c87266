"""`sparkhaven scrub`: every committed byte is read again, at its rate, and a round goes on where it stopped."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven import save_table
from sparkhaven.jobs.cli.reading.scrub import BLOCK, Pace, ScrubRound, load_position, only_scrub
from sparkhaven.store.errors import LockLostError
from sparkhaven.store.layout import LocationKey
from tests.support.commands import run, run_json
from tests.support.disks.contents import flip
from tests.support.places import REPOSITORY
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.export_cases import NEXT
from tests.support.writers.merge_cases import DAY, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, make, merge

OPEN = "2024-03-09"
DATA = (".dat", ".sym", ".bytes", ".parquet", "index.bin")
BIG = pa.table({"N": pa.array(range(300_000), pa.int64())})  # of more than two blocks


@pytest.fixture
def db(tmp_path: Path) -> IntradayRows:
    """Both tiers, both formats, a date that was not merged, and a table of a user."""
    made, _ = make(tmp_path, 20)
    made.commit({("a", NEXT): as_table([random_row(random.Random(1))])})
    merge(made.layout)
    merge(made.layout, NEXT, format="parquet")
    made.commit({("a", OPEN): as_table([random_row(random.Random(2)) for _ in range(3)])})
    save_table(made.layout.root, "me.T", BIG)
    return made


class Ticks:
    """A clock that stands still but for sleeps, and calls ``then`` at the n-th of them."""

    def __init__(self, then: Callable[[], object] = lambda: None, at: int = 1) -> None:
        self.now, self.slept, self._then, self._at = 1000.0, 0, then, at

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += 1
        if self.slept == self._at:
            self._then()


def a_round(db: IntradayRows, ticks: Ticks | None = None, rate: int = 1000, until: float = float("inf")) -> ScrubRound:
    ticks = ticks or Ticks()
    FS.mkdirs(db.layout.scrub())
    pace = Pace(rate, lambda: ticks.now, ticks.sleep)
    return ScrubRound(FS, db.layout, pace, lambda text: None, until=until, position=load_position(FS, db.layout, print))


def paths(running: ScrubRound) -> list[str]:
    return [found["path"] for found in running.position.findings]


def data_files(root: Path) -> list[Path]:
    """Files with committed bytes, as they lie on disk: a ``.dat`` is longer than its prefix, another one not empty."""
    found = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink() and ".old-" not in str(path))
    held = (path for path in found if path.name.endswith(DATA) and not path.relative_to(root).parts[0].startswith("."))
    return sorted({path.resolve() for path in held if path.stat().st_size > (4096 if path.suffix == ".dat" else 0)})


def test_a_flipped_bit_of_any_file_is_found_and_nothing_else(db: IntradayRows) -> None:
    root = db.layout.root
    code, sound = run_json(root, "scrub", "--rate", "10GB")
    assert (code, sound["errors"], sound["complete"], sound["round"]) == (0, 0, True, 1)
    files = data_files(root)
    assert sound["files"] >= len(files) > 40
    assert sound["bytes"] >= sum(path.stat().st_size - (4096 if path.suffix == ".dat" else 0) for path in files)
    for path in files:
        flip(path, -1)
    code, found = run_json(root, "scrub", "--rate", "10GB")
    assert (code, found["round"]) == (1, 2)
    assert {Path(part["path"]).resolve() for part in found["findings"]} == {*files}
    assert all("checksum" in part["what"] for part in found["findings"])
    for path in files:
        flip(path, -1)
    assert run_json(root, "scrub", "--rate", "10GB")[1]["findings"] == []


def test_files_that_are_lost_or_cut_are_found(db: IntradayRows) -> None:
    lost, cut, prefix = [path for path in data_files(db.layout.root) if path.suffix == ".dat"][:3]
    lost.unlink()
    with cut.open("r+b") as opened:
        opened.truncate(4097)
    flip(prefix, 30)
    running = a_round(db, rate=10**12)
    assert running.run()
    assert {Path(path).resolve() for path in paths(running)} == {lost, cut, prefix}


def test_a_round_that_pauses_goes_on_there_and_reads_no_byte_twice(db: IntradayRows) -> None:
    whole = a_round(db)
    assert whole.run()
    number, size = whole.position.round, whole.position.size
    whole.end()
    assert size > 2 * BLOCK
    for path in data_files(db.layout.root)[:2]:
        flip(path, -1)
    pauses, read = 0, 0
    while True:
        running = a_round(db, until=1000.0 + size / 1000 / 5)
        before = running.position
        if running.run():
            break
        assert size / 5 <= running.position.size - before.size < size / 5 + BLOCK
        pauses, read = pauses + 1, max(read, running.position.offset)
    assert pauses >= 2 and read % BLOCK == 0 and read, "it has paused within a file"
    again = sum(path.stat().st_size - 4096 * (path.suffix == ".dat") for path in data_files(db.layout.root)[:2])
    assert running.position.size == size + again, "only what differs is read twice"
    assert len(running.position.findings) == 2
    running.end()
    assert load_position(FS, db.layout, print).round == number + 2


def test_the_rate_is_kept(db: IntradayRows) -> None:
    ticks = Ticks()
    running = a_round(db, ticks, rate=5000)
    assert running.run()
    assert ticks.now - 1000.0 == pytest.approx(running.position.size / 5000)


def _later(db: IntradayRows) -> None:
    db.commit({("a", DAY): as_table([random_row(random.Random(n)) for n in range(9)])})


def _rolled_back(db: IntradayRows) -> None:
    db.log.rollback(db.log.state.epoch - 1)
    db.commit({("a", OPEN): as_table([random_row(random.Random(3))])})


def _merged_anew(db: IntradayRows) -> None:
    _later(db)
    merge(db.layout, rewrite=True)
    assert run(db.layout.root, "clean").exit_code == 0


def _removed(db: IntradayRows) -> None:
    for words in (("validate",), ("truncate",), ("delete", "--no-wait")):
        run(db.layout.root, words[0], str(TABLE), "--date", DAY)
    gone = db.layout.intraday_location(TABLE, LocationKey("a", DAY))
    for path in gone.glob("*.dat"):  # as a delete does after its time
        if path.stat().st_size <= 4096:
            path.unlink()


@pytest.mark.parametrize("change", [_later, _rolled_back, _merged_anew, _removed])
@pytest.mark.parametrize("at", [1, 5, 30])
def test_what_happens_meanwhile_is_no_damage(db: IntradayRows, change: Callable[[IntradayRows], None], at: int) -> None:
    done: list[bool] = []
    ticks = Ticks(lambda: (change(db), done.append(True)), at)
    running = a_round(db, ticks)
    assert running.run() and done
    assert running.position.findings == ()


def test_a_damaged_position_begins_a_round_and_says_so(db: IntradayRows) -> None:
    place = db.layout.scrub() / "position"
    assert run(db.layout.root, "scrub", "--rate", "10GB", "--for", "0 s").exit_code == 0
    for data in (place.read_bytes()[:-3], b"", b"00000000 {}", b"\xff" * 50):
        place.write_bytes(data)
        said: list[str] = []
        assert load_position(FS, db.layout, said.append).file == ""
        assert len(said) == 1 and str(place) in said[0]


def test_a_round_of_a_root_that_was_moved_begins_anew_and_says_so(db: IntradayRows) -> None:
    """The copy has other bytes on disk. None of them may count as read."""
    root = db.layout.root
    code, whole = run_json(root, "scrub", "--rate", "10GB")
    assert code == 0
    assert run(root, "scrub", "--rate", "10GB", "--for", "0 s").exit_code == 0
    other = a_round(db)
    other.position = replace(other.position, table="Test.Every", after=str(root / "zzz"))
    other.save()
    moved = root.with_name("a-moved")
    root.rename(moved)
    done = run(moved, "scrub", "--rate", "10GB", "--json")
    assert (done.exit_code, json.loads(done.stdout)["bytes"]) == (0, whole["bytes"])
    assert "another root" in done.stderr and str(root) in done.stderr


def test_a_killed_round_goes_on_where_it_was_saved(db: IntradayRows) -> None:
    root, position = db.layout.root, db.layout.scrub() / "position"
    sound = run_json(root, "scrub", "--rate", "10GB")[1]
    damaged = data_files(root)[0]
    flip(damaged, -1)
    before = position.read_bytes()
    words = [sys.executable, "-m", "sparkhaven.jobs.cli.main", "--root", str(root), "scrub", "--rate", "100KB"]
    with subprocess.Popen(words, cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        while position.read_bytes() == before and running.poll() is None:
            time.sleep(0.01)
        running.kill()
    assert running.returncode == -signal.SIGKILL, "it was killed in the middle"
    stopped = load_position(FS, db.layout, print)
    assert stopped.round == 2 and 0 < stopped.size < sound["bytes"]
    code, rest = run_json(root, "scrub", "--rate", "10GB")
    assert (code, rest["round"], [found["path"] for found in rest["findings"]]) == (1, 2, [str(damaged)])
    size = damaged.stat().st_size - 4096 * (damaged.suffix == ".dat")
    assert rest["bytes"] in (sound["bytes"], sound["bytes"] + size), "what differs is read twice, all else once"


def test_one_scrub_a_database(db: IntradayRows) -> None:
    with only_scrub(FS, db.layout):
        with pytest.raises(LockLostError), only_scrub(FS, db.layout):
            pass
        found = run(db.layout.root, "scrub")
    assert found.exit_code == 3 and "another scrub" in found.stderr


def test_a_table_alone_and_a_plan(db: IntradayRows) -> None:
    root = db.layout.root
    code, plan = run_json(root, "scrub", "--dry-run", "--rate", "1")
    assert code == 0 and plan["seconds"] == pytest.approx(plan["bytes"] / 1e6, abs=0.001)
    assert not (root / ".scrub").exists()
    parts = [run_json(root, "scrub", name, "--rate", "1GB")[1]["bytes"] for name in ("Test.Every", "me.T")]
    assert sum(parts) == plan["bytes"] and min(parts) > 0
    assert run(root, "scrub", "Test.No").exit_code == 2
    for words in (("--rate", "fast"), ("--rate", "0"), ("--for", "a while")):
        found = run(root, "scrub", *words)
        assert found.exit_code == 2 and words[0] in found.stderr and words[1] in found.stderr
