"""Storage partitions that are rolled: links move, data stays, all readers go on, whatever stops in between."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.epochs.reading.stream_state import newest_states
from sparkhaven.store.errors import NotPermittedError, RetryableStorageError, SettingsError, TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.writers.merge.plan.output_plan import coming_bytes
from sparkhaven.writers.partitions import add_partition, list_partitions, parse_share, roll_partitions, writable_names
from tests.support.commands import run, run_json
from tests.support.disks.model_fs import Crash, KillingFs, QuickFs
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.live_rows import expected, more, rows_of
from tests.support.tables.live_tables import Engine
from tests.support.writers.merge_cases import DAY, as_table, random_row
from tests.support.writers.merge_runs import FS, make, merge

NEXT = "2024-03-06"


class SharedFs(QuickFs):
    """Volumes whose shares in use are given by the name of a directory on them; free bytes are in proportion."""

    def __init__(self, **shares: float) -> None:
        self.shares = {name.removeprefix("p"): share for name, share in shares.items()}

    def used_share(self, path: Path) -> float:
        return next((self.shares[name] for name in reversed(path.resolve().parts) if name in self.shares), 0.0)

    def free_bytes(self, path: Path) -> int:
        return round((1 - self.used_share(path)) * (1 << 40))


def volume_of(root: Path, name: str = "second") -> Path:
    volume = root.with_name(name)
    volume.mkdir()
    return volume


def every_reader(root: Path) -> list[Any]:
    rows = open_table(root, "Test.Every").to_arrow(["L", "Sym", "Date"]).to_pylist()
    code, counted = run_json(root, "sql", "SELECT count(*) AS n, sum(L) AS s FROM Test.Every")
    engine = Engine(root, fs=FS).attach("Test_Every")
    assert (code, engine.errors) == (0, [])
    return [sorted(map(repr, rows)), counted, engine.count]


def records_of(db: IntradayRows, day: str) -> list[str]:
    record = newest(db.place, day)
    assert record is not None
    return [output.internal for output in record.outputs]


def writable(layout: Layout) -> list[str]:
    return writable_names(FS, layout, "Test")


def test_merges_write_to_the_new_partition_and_readers_keep_both(tmp_path: Path) -> None:
    root = tmp_path / "db"
    db, rows = make(root, 60, partitions=1)
    merge(db.layout)
    pinned, before = open_table(root, "Test.Every"), every_reader(root)
    attached = Engine(root, fs=FS).attach("Test_Every")
    volume = volume_of(root)
    (planned,) = roll_partitions(FS, db.layout, "Test", volume=volume, dry_run=True)
    assert writable(db.layout) == ["0"] and list(volume.iterdir()) == []
    (rolled,) = roll_partitions(FS, db.layout, "Test", volume=volume)
    assert (rolled.name, rolled.new, rolled.directory) == ("0", "1", str(volume / "Test" / "1"))
    assert (planned.new, planned.directory) == (rolled.new, rolled.directory)
    assert [(p.name, p.writable) for p in list_partitions(FS, db.layout, "Test")] == [("0", False), ("1", True)]
    assert every_reader(root) == before
    assert roll_partitions(FS, db.layout, "Test", volume=volume) == []  # it has no date yet
    extra = [random_row(random.Random(5)) for _ in range(4)]
    db.commit({("a", NEXT): as_table(extra)})
    merge(db.layout, NEXT)
    assert (records_of(db, DAY), records_of(db, NEXT)) == (["0"], ["1"])
    assert pinned.to_arrow(["L"]).num_rows == 60
    assert rows_of(attached) == expected(rows)
    assert len(every_reader(root)[0]) == 64
    (again,) = roll_partitions(FS, db.layout, "Test", volume=volume)
    assert (again.name, again.new) == ("1", "2")


def test_an_engine_goes_on_across_a_roll(tmp_path: Path) -> None:
    root = tmp_path / "db"
    db, rows = make(root, 40, partitions=1)
    engine = Engine(root, fs=FS)
    attached = engine.attach("Test_Every")
    merge(db.layout)
    engine.look(1)
    roll_partitions(FS, db.layout, "Test", volume=volume_of(root))
    engine.look()
    more(db, rows, 3)
    merge(db.layout, rewrite=True)
    engine.look(1)
    assert records_of(db, DAY) == ["1.g2"]
    assert rows_of(attached) == expected(rows)
    assert attached.errors == [] and engine.notes == []
    assert rows_of(Engine(root, fs=FS).attach("Test_Every")) == expected(rows)


def test_a_kill_between_any_two_steps_leaves_a_partition_to_write_to(tmp_path: Path) -> None:
    calls, number = 0, 0
    while True:
        number += 1
        root = tmp_path / f"db{number}"
        db, _ = make(root, 20, partitions=1)
        merge(db.layout)
        rows, volume = open_table(root, "Test.Every").to_arrow(["L"]), volume_of(root, f"second{number}")
        fs = KillingFs(crash_after=number - 1)
        try:
            roll_partitions(fs, db.layout, "Test", volume=volume)
        except Crash:
            calls += 1
        assert open_table(root, "Test.Every").to_arrow(["L"]) == rows
        assert writable(db.layout) in (["0"], ["0", "1"], ["1"])
        db.commit({("a", NEXT): as_table([random_row(random.Random(5))])})
        if number % 2:
            merge(db.layout, NEXT)
            assert open_table(root, "Test.Every").to_arrow(["L"]).num_rows == 21
        else:
            roll_partitions(FS, db.layout, "Test", volume=volume)
            assert writable(db.layout) == ["1"]
            assert [p.name for p in list_partitions(FS, db.layout, "Test")] == ["0", "1"]
        if calls < number:
            break
    assert calls >= 5


def test_only_full_volumes_are_rolled_each_to_a_new_partition(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "db")
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    add_partition(FS, layout, "Test", "0", volume=tmp_path / "a")
    add_partition(FS, layout, "Test", "1", volume=tmp_path / "b")
    add_partition(FS, layout, "Test", "2", volume=tmp_path / "a")
    (tmp_path / "b" / "Test" / "1" / DAY).mkdir()
    fs = SharedFs(a=0.93, b=0.4, c=0.1, db=0.95)
    assert roll_partitions(fs, layout, "Test", fuller_than=0.95) == []
    rolled = roll_partitions(fs, layout, "Test", fuller_than=0.9)
    assert [(one.name, one.used, one.new) for one in rolled] == [("0", 0.93, "3"), ("2", 0.93, "4")]
    assert {Path(one.directory).parent for one in rolled} == {tmp_path / "b" / "Test"}  # the emptiest that is in use
    assert writable(layout) == ["1", "3", "4"]
    assert roll_partitions(fs, layout, "Test", fuller_than=0.9) == []
    for name in ("3", "4"):
        (layout.partitions("Test") / name / DAY).mkdir()
    rolled = roll_partitions(fs, layout, "Test", fuller_than=0.3, volume=tmp_path / "c")
    assert [(one.name, one.new) for one in rolled] == [("1", "5"), ("3", "6"), ("4", "7")]
    with pytest.raises(RetryableStorageError) as raised:
        roll_partitions(fs, layout, "Test", fuller_than=0.05, volume=tmp_path / "b")
    assert (raised.value.expected, raised.value.found) == ("at most 5% in use", "40.0% in use")


def test_what_cannot_be_rolled_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "db")
    with pytest.raises(TableNotFoundError, match="no storage partitions"):
        roll_partitions(FS, layout, "Test")
    add_partition(FS, layout, "Test", "0")
    (layout.partitions("Test") / "0" / DAY).mkdir()

    class Other(QuickFs):
        def user(self) -> int:
            return 12345

    with pytest.raises(NotPermittedError, match="belongs to another user"):
        roll_partitions(Other(), layout, "Test")
    with pytest.raises(SettingsError, match="volume does not exist"):
        roll_partitions(FS, layout, "Test", volume=tmp_path / "none")
    add_partition(FS, layout, "Test", "7", volume=volume_of(layout.root, "v"))
    (tmp_path / "v").rename(tmp_path / "gone")
    with pytest.raises(RetryableStorageError, match="volume of storage partition 7 is not mounted"):
        roll_partitions(FS, layout, "Test")
    FS.unlink(layout.writable_partitions("Test") / "7")
    FS.unlink(layout.writable_partitions("Test") / "0")
    (layout.writable_partitions("Test") / "0").mkdir()
    with pytest.raises(SettingsError, match="is a directory, which may have data"):
        roll_partitions(FS, layout, "Test")
    assert writable(layout) == ["0"]


def test_a_closed_partition_of_an_archive_is_not_taken(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "db")
    add_partition(FS, layout, "Test", "0")
    (layout.partitions("Test") / "0" / DAY).mkdir()
    volume = volume_of(layout.root)
    add_partition(FS, layout, "Test", "archive", volume=volume)
    FS.unlink(layout.writable_partitions("Test") / "archive")
    (rolled,) = roll_partitions(FS, layout, "Test", volume=volume)
    assert rolled.new == "1"


@pytest.mark.parametrize("text", ["90", "90%", " 90 % "])
def test_shares_are_percentages(text: str) -> None:
    assert parse_share(text, "--here") == 0.9


@pytest.mark.parametrize("text", ["", "0", "100%", "0.9", "-5", "nine", "²"])
def test_other_shares_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="not a percentage"):
        parse_share(text, "--here")


def test_the_bytes_that_come_count_as_used(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "db")
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    add_partition(FS, layout, "Test", "0", volume=tmp_path / "a")
    fs, share = SharedFs(a=0.85, b=0.8, c=0.1, db=0.95), 1 << 40
    assert roll_partitions(fs, layout, "Test", fuller_than=0.9, volume=tmp_path / "c", coming=share // 25) == []
    with pytest.raises(RetryableStorageError) as raised:
        roll_partitions(fs, layout, "Test", fuller_than=0.9, volume=tmp_path / "b", coming=share // 8)
    assert raised.value.found == "92.5% in use with what comes"
    (one,) = roll_partitions(fs, layout, "Test", fuller_than=0.9, volume=tmp_path / "c", coming=share // 10)
    assert (one.name, one.used) == ("0", 0.85)


@pytest.mark.parametrize(("words", "copies"), [((), 1), (("--format", "both"), 2)])
def test_a_merge_counts_what_it_is_about_to_write(tmp_path: Path, words: tuple[str, ...], copies: int) -> None:
    db, rows = make(tmp_path / "db", 3000, partitions=1)
    states = newest_states(db.place)
    first = coming_bytes(db.place, states, [DAY, NEXT], rewrite=False, copies=copies)
    assert run(tmp_path / "db", "merge", "Test.Every", "--date", DAY, "--local", *words).exit_code == 0
    record = newest(db.place, DAY)
    assert record is not None
    written = sum(file.size for output in record.outputs for file in output.files.values())
    assert written / 2 < first < written * 2
    assert coming_bytes(db.place, states, [DAY], rewrite=False, copies=copies) == 0
    assert coming_bytes(db.place, states, [DAY], rewrite=True, copies=copies) >= written - copies
    db.commit({("late", DAY): as_table(rows[:300])})
    late = coming_bytes(db.place, newest_states(db.place), [DAY], rewrite=False, copies=copies)
    assert 0 < late < first / 5


def test_the_command_says_what_it_does(tmp_path: Path) -> None:
    root = tmp_path / "db"
    db, _ = make(root, 20, partitions=1)
    merge(db.layout)
    volume = volume_of(root)
    words = ("partitions", "roll", "Test", "--volume", volume)
    code, planned = run_json(root, *words, "--dry-run")
    assert (code, planned["dry_run"], planned["partitions"][0]["new"]) == (0, True, "1")
    assert f"merges write to storage partition 1 ({volume}/Test/1, " in run(root, *words).stdout
    assert run_json(root, *words)[1]["partitions"] == []
    assert run(root, *words, "--if-fuller-than", "much").exit_code == 2


def test_a_merge_rolls_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "db"
    db, _ = make(root, 20, partitions=1)
    (db.layout.partitions("Test") / "0" / "other").mkdir()
    volume = volume_of(root)
    line = ("merge", "Test.Every", "--date", DAY, "--local", "--roll-to", volume)
    assert run(root, *line).exit_code == 2
    monkeypatch.setattr(Fs, "used_share", lambda fs, path: 0.5)
    full = run(root, *line, "--roll-above", "49%")  # one device: no volume is emptier
    assert full.exit_code == 0 and "were not rolled" in full.stderr
    assert records_of(db, DAY) == ["0"]
    assert run(root, *line, "--roll-above", "51%").exit_code == 0
    assert writable(db.layout) == ["0"]
