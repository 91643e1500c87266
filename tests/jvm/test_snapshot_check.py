"""The Spark reader in Java sees what Python's readers see: whether files that it opened are still of the snapshot."""

from __future__ import annotations

import json
import pickle
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers import open_table
from sparkhaven.readers.arrow.snapshot import Snapshot
from sparkhaven.readers.spark.jvm.plan_file import pinned_streams
from sparkhaven.store.epochs.files.removals import fold_removals, write_removals
from sparkhaven.store.epochs.pins import Pin
from sparkhaven.store.epochs.state.removed_locations import Removal, RemovalPhase
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.scan.slices import Slice
from sparkhaven.writers.removal.table_removal import remove_stream
from tests.support.spark.java_reader import classpath
from tests.support.tables.small_tables import SmallTable

pytestmark = pytest.mark.jvm
SOURCE = Path(__file__).with_name("SnapshotChecks.java")
D1, D2 = "2026-11-20", "2026-11-21"
TRUNCATE, DELETE = RemovalPhase.TRUNCATE, RemovalPhase.DELETE


class Checks:
    """One JVM that answers questions about locations."""

    def __init__(self, classes: Path) -> None:
        subprocess.run(["javac", "-cp", classpath(), "-d", str(classes), str(SOURCE)], check=True)
        command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{classpath()}", "SnapshotChecks"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, pins: dict[str, Any], slice_: Slice, pin: Pin | None, how: str = "require") -> str | None:
        """The message of the error; None: there is none."""
        assert self._process.stdin and self._process.stdout
        at = None if pin is None else pin.state.locations[slice_.key]
        epochs = (at.since, at.made_ms, at.epoch) if at else (0, 0, 0)
        names = slice_.stream, slice_.key.internal, slice_.key.value, str(slice_.directory)
        self._process.stdin.write(json.dumps({"pins": pins, "location": [*names, slice_.rows, *epochs], "how": how}))
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer: str | None = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        self._process.communicate(timeout=30)


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checks]:
    running = Checks(tmp_path_factory.mktemp("classes"))
    yield running
    running.close()


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    """Epoch 1: source a; epoch 2: more of it, and source b; epoch 3: another date."""
    table = SmallTable(tmp_path)
    table.log(keep_epochs=1)
    table.add("a", D1, {"Size": [1, 2]})
    table.commit(table.append("a", D1, {"Size": [3, 4]}), table.append("b", D1, {"Size": [5]}))
    table.add("a", D2, {"Size": [6]})
    return table


class Planned:
    """A snapshot as its tasks get it, in Python and in Java."""

    def __init__(self, small: SmallTable, checks: Checks, opened: Snapshot | None = None) -> None:
        table = (opened or open_table(small.root, "NS.T"))._pinned
        self.slices = table.plan().slices
        names = sorted({slice_.stream for slice_ in self.slices if slice_.stream})
        self.pins = json.loads(json.dumps(pinned_streams(small.place, [table.pin(name) for name in names])))
        self._table, self._small, self._checks = pickle.dumps(table.narrowed(self.slices)), small, checks

    def compare(self) -> dict[str, str | None]:
        """The answers about each location: those of Java are those of Python, twice."""
        answers: dict[str, str | None] = {}
        for slice_ in self.slices:
            pin = pickle.loads(self._table).pin(slice_.stream)
            expected = None
            try:
                pin.require([(slice_.key, slice_.directory)])
            except SparkhavenError as error:
                expected = f"{type(error).__name__}: {error}"
            for _ in range(2):
                assert self._checks.ask(self.pins, slice_, pin) == expected
            answers[f"{slice_.key.internal} {slice_.key.value}"] = expected and expected.partition("\n")[0]
        return answers


ROLLED = "SnapshotMovedError: the pinned epoch has been rolled back"
LEFT = "SnapshotMovedError: rows of this snapshot were merged and deleted from intraday since it was opened"
HISTORY_LEFT = "SnapshotMovedError: history of the date was changed since the table was opened, and its files of then"
STANDS: dict[str, str | None] = {f"a {D1}": None, f"b {D1}": None, f"a {D2}": None}


def roll_back(small: SmallTable) -> None:
    small.log().rollback(1)


def roll_back_and_go_on(small: SmallTable) -> None:
    small.log().rollback(1)
    small.add("b", D1, {"Size": [7, 8]})
    small.add("a", D1, {"Size": [7, 8]})


def roll_back_and_compact(small: SmallTable) -> None:
    roll_back_and_go_on(small)
    for number in range(4):
        small.add("c", D1, {"Size": [number]})
    assert small.log().compact_if_due(now=True)


def roll_back_in_a_new_generation(small: SmallTable) -> None:
    small.logs.pop("s").close()
    roll_back_and_go_on(small)


def removal(small: SmallTable, internal: str, phase: RemovalPhase, *, time_ms: int = 0) -> None:
    location = small.log().state.locations[LocationKey(internal, D1)]
    made = time_ms or location.made_ms
    entry = Removal(location.key, location.since, location.rows, phase, small.log().state.epoch, made_ms=made)
    write_removals(small.place.of_stream("s"), [entry])
    small.log().refresh()


def truncate(small: SmallTable) -> None:
    removal(small, "b", TRUNCATE)


def move_away(small: SmallTable) -> None:
    truncate(small)
    directory = small.location("b", D1)
    small.fs.rename(directory, directory.with_name(".doomed-T"))


def delete(small: SmallTable) -> None:
    move_away(small)
    removal(small, "b", DELETE)


def delete_and_ingest(small: SmallTable) -> None:
    delete(small)
    small.add("b", D1, {"Size": [70]})


def delete_and_fold(small: SmallTable) -> None:
    delete(small)
    assert fold_removals(small.place.of_stream("s"), least_bytes=0)


def several_removals_at_once(small: SmallTable) -> None:
    state = small.log().state
    locations = [state.locations[LocationKey(internal, D1)] for internal in "ab"]
    entries = [Removal(at.key, at.since, at.rows, DELETE, state.epoch, made_ms=at.made_ms) for at in locations]
    write_removals(small.place.of_stream("s"), entries)


def another_of_that_name(small: SmallTable) -> None:
    """A removal of a location that was made at another time, as after a log that was restored from a copy."""
    removal(small, "b", DELETE, time_ms=5)


def drop(small: SmallTable, look: Callable[[], object] = lambda: None) -> None:
    small.merge_by_hand(D2)  # which names an epoch of the stream, so that its note stays
    delete(small)
    for key in list(small.log().state.locations):
        location = small.log().state.locations[key]
        entry = Removal(key, location.since, location.rows, DELETE, small.log().state.epoch, made_ms=location.made_ms)
        small.fs.remove_tree(small.location(*key_of(key)))
        write_removals(small.place.of_stream("s"), [entry])
    small.log().refresh()
    small.logs.pop("s").close()
    look()
    remove_stream(small.place.of_stream("s"), clock=lambda: small.now)


def drop_and_ingest(small: SmallTable) -> None:
    drop(small)
    small.add("b", D1, {"Size": [70]})


def key_of(key: LocationKey) -> tuple[str, str]:
    return key.internal, key.value


def lose_the_log(small: SmallTable) -> None:
    small.fs.unlink(small.place.of_stream("s").stream_log)


def commit(small: SmallTable) -> None:
    for number in range(3):
        small.add("a", D1, {"Size": [number]})


def commit_and_compact(small: SmallTable) -> None:
    commit(small)
    assert small.log().compact_if_due(now=True)
    commit(small)


def begin_another_generation(small: SmallTable) -> None:
    commit(small)
    small.logs.pop("s").close()
    commit(small)


def tear_the_log(small: SmallTable) -> None:
    commit(small)
    path = small.place.of_stream("s").stream_log
    path.write_bytes(path.read_bytes() + b"\x40\x00\x00\x00torn")


def damage_the_log(small: SmallTable) -> None:
    path = small.place.of_stream("s").stream_log
    start = path.stat().st_size
    commit(small)
    data = bytearray(path.read_bytes())
    data[start + 20] ^= 1
    path.write_bytes(data)


def damage_the_removals(small: SmallTable) -> None:
    truncate(small)
    path = small.place.of_stream("s").stream_removals
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.write_bytes(data)


Answers = dict[str, str | None]
ROLLED_BACK: Answers = {f"a {D1}": ROLLED, f"b {D1}": ROLLED, f"a {D2}": ROLLED}
B_LEFT: Answers = STANDS | {f"b {D1}": LEFT}
AFTER: dict[Callable[[SmallTable], None], Answers] = {
    commit: STANDS,
    commit_and_compact: STANDS,
    begin_another_generation: STANDS,
    tear_the_log: STANDS,
    truncate: STANDS,
    another_of_that_name: STANDS,
    roll_back: ROLLED_BACK,
    roll_back_and_go_on: ROLLED_BACK,
    roll_back_and_compact: ROLLED_BACK,
    roll_back_in_a_new_generation: ROLLED_BACK,
    move_away: B_LEFT,
    delete: B_LEFT,
    delete_and_ingest: B_LEFT,
    delete_and_fold: B_LEFT,
    several_removals_at_once: B_LEFT | {f"a {D1}": LEFT},
    drop: dict.fromkeys(STANDS, LEFT),
    drop_and_ingest: ROLLED_BACK,
    lose_the_log: dict.fromkeys(STANDS, "TableNotFoundError: stream has no commit log"),
    damage_the_log: dict.fromkeys(STANDS, "CorruptFileError: a record before the last one is damaged"),
    damage_the_removals: dict.fromkeys(STANDS, "CorruptFileError: file starts with other bytes"),
}


@pytest.mark.parametrize("act", AFTER, ids=lambda act: act.__name__)
def test_java_says_what_python_says(act: Callable[[SmallTable], None], small: SmallTable, checks: Checks) -> None:
    planned = Planned(small, checks)
    assert planned.compare() == STANDS
    act(small)
    assert planned.compare() == AFTER[act]
    if act not in (drop, tear_the_log, lose_the_log, damage_the_log):
        small.add("z", D2, {"Size": [1]})
        assert planned.compare() == AFTER[act]


def test_a_stream_of_the_same_name_has_its_own_removals(small: SmallTable, checks: Checks) -> None:
    """They begin anew, before those that were read of the stream that was removed."""
    planned = Planned(small, checks)
    drop(small, planned.compare)
    small.add("b", D1, {"Size": [70]})
    assert planned.compare() == ROLLED_BACK
    removal(small, "b", TRUNCATE)
    assert planned.compare() == ROLLED_BACK


def test_what_was_known_when_it_was_planned_counts(small: SmallTable, checks: Checks) -> None:
    opened = open_table(small.root, "NS.T")
    truncate(small)
    planned = Planned(small, checks, opened)
    assert planned.pins["streams"][0]["removed"]
    assert planned.compare() == STANDS
    directory = small.location("b", D1)
    small.fs.rename(directory, directory.with_name(".doomed-T"))
    assert planned.compare() == B_LEFT


def test_rows_that_were_removed_still_count(small: SmallTable, checks: Checks) -> None:
    planned = Planned(small, checks)
    delete(small)
    pin = pickle.loads(planned._table).pin("s")
    assert [checks.ask(planned.pins, slice_, pin, "counted") for slice_ in planned.slices] == [None] * 3
    roll_back(small)
    answers = [checks.ask(planned.pins, slice_, pin, "counted") for slice_ in planned.slices]
    assert [answer and answer.partition("\n")[0] for answer in answers] == [ROLLED, ROLLED, ROLLED]


def test_history_that_is_gone(small: SmallTable, checks: Checks) -> None:
    small.merge_by_hand(D1)
    small.merge_by_hand(D2)
    planned = Planned(small, checks)
    slice_ = next(slice_ for slice_ in planned.slices if slice_.key.value == D1)
    assert checks.ask(planned.pins, slice_, None, "Size.dat") == "Size.dat"
    small.fs.remove_tree(slice_.directory)
    for _ in range(2):
        answer = checks.ask(planned.pins, slice_, None, "Size.dat")
        assert answer is not None and answer.startswith(HISTORY_LEFT) and str(slice_.directory) in answer
    partition = slice_.directory.parent.parent
    small.fs.rename(partition, partition.with_name("away"))
    small.fs.symlink(str(small.root / "mnt"), partition)
    answer = checks.ask(planned.pins, slice_, None, "Size.dat")
    with pytest.raises(SparkhavenError, match="is not mounted") as caught:
        open_table(small.root, "NS.T").to_arrow("Size")
    assert answer == f"RetryableStorageError: {caught.value}"
    small.merge_by_hand(D1, generation=1)
    answer = checks.ask(planned.pins, slice_, None, "Size.dat")
    assert answer is not None and answer.startswith(HISTORY_LEFT)


def test_a_stream_that_goes_on_is_no_alarm(small: SmallTable, checks: Checks) -> None:
    """Commits, new generations and compactions, and locations of others that come and go, while tasks look."""
    planned = Planned(small, checks)
    pin = pickle.loads(planned._table).pin("s")

    def write() -> None:
        for number in range(12):
            small.add("a", D1, {"Size": [number]})
            small.add(f"c{number}", D2, {"Size": [number]})
            if number % 3 == 1:
                assert small.log().compact_if_due(now=True)
            if number % 4 == 2:
                small.logs.pop("s").close()
                small.log(keep_epochs=1)
            key = LocationKey(f"c{number}", D2)
            state = small.log().state.locations[key]
            small.fs.remove_tree(small.location(*key_of(key)))
            gone = Removal(key, state.since, 1, DELETE, small.log().state.epoch, made_ms=state.made_ms)
            write_removals(small.place.of_stream("s"), [gone])
            small.log().refresh()

    answers: list[str | None] = []
    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(write)
        while not writer.done() or len(answers) < 3:
            answers += [checks.ask(planned.pins, slice_, pin) for slice_ in planned.slices]
        writer.result()
    assert set(answers) == {None}
    assert open_table(small.root, "NS.T").epochs["s"] > 24
    assert planned.compare() == STANDS
