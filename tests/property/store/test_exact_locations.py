"""Locations that the compiled core finds exact: the plan of recovery is the one that is made without it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.store.epochs.recovery import directory_plan
from sparkhaven.store.epochs.recovery.directory_plan import Settlement, exact_locations, settle_locations
from sparkhaven.store.epochs.recovery.resume import resume
from sparkhaven.store.epochs.state.locations import TRUNCATED, WITHDRAWN, Locations
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.native.files import DIRECTORY, Directories, DirectoryForm, compare_directories
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.types.row_ranges import RowRanges
from tests.support.disks.model_fs import CrashingFs
from tests.support.guard_pages import guarded
from tests.support.streams.tiny_writer import STREAM, TABLE, location_path, open_log, write_batch

FS = CrashingFs()
KEYS = [LocationKey(internal, f"2026-11-{day:02}") for internal in "ab" for day in range(1, 5)]


def _replace_by_link(path: Path) -> None:
    path.rename(path.parent.parent / "aside")
    path.symlink_to("../aside")


def _flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= 1
    path.write_bytes(data)


def _make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


CHANGES: dict[str, Callable[[Path, int], object]] = {
    "shorter": lambda path, n: os.truncate(path / "N.dat", 4096 + n % 8),
    "longer": lambda path, n: os.truncate(path / "T.bytes", 5000 + n),
    "file missing": lambda path, n: (path / "T.dat").unlink(),
    "file is a directory": lambda path, n: _make_directory(path / "T.dat"),
    "column of no batch": lambda path, n: (path / "New.dat").write_bytes(b"x"),
    "temporary": lambda path, n: (path / ".table.size.tmp-7").write_bytes(b""),
    "record flipped": lambda path, n: _flip(path / "table.size", n),
    "record cut": lambda path, n: os.truncate(path / "table.size", n % 60),
    "record longer": lambda path, n: (path / "table.size").write_bytes((path / "table.size").read_bytes() + b"x"),
    "record missing": lambda path, n: (path / "table.size").unlink(),
    "definition missing": lambda path, n: (path / "table.tbl").unlink(),
    "directory missing": lambda path, n: path.rename(path.with_name("aside")),
    "directory is a file": lambda path, n: (path.rename(path.with_name("aside")), path.write_bytes(b"")),
}
HARMLESS: dict[str, Callable[[Path, int], object]] = {
    "note": lambda path, n: (path / "notes.txt").write_bytes(b"not ours"),
    "link": lambda path, n: _replace_by_link(path / "N.dat"),
    "no mark": lambda path, n: (path / ".stream").unlink(),
    "nothing": lambda path, n: None,
}
ALL = CHANGES | HARMLESS


def _plan(place: StreamPlace, state: StreamState) -> Settlement | str:
    try:
        return settle_locations(place, state, state.locations, ahead=False)
    except CorruptFileError as error:
        return str(error)


def _written(root: Path) -> tuple[StreamPlace, StreamState]:
    """Locations, of which all but two are as the head has them."""
    with open_log(FS, root) as log:
        write_batch(FS, root, log, {key: [number] for number, key in enumerate(KEYS)}, 0)
        assert log.write_head()
        write_batch(FS, root, log, dict.fromkeys(KEYS[:2], range(5)), 1)
    FS.mkdirs(Layout(root).schema(TABLE).parent)
    FS.write_new(Layout(root).schema(TABLE), b"it is there")
    return StreamPlace(FS, Layout(root), TABLE, STREAM), log.state


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StreamState]:
    root = tmp_path_factory.mktemp("root")
    return root, _written(root)[1]


@settings(max_examples=60)
@given(
    asked=st.dictionaries(
        st.sampled_from(KEYS), st.tuples(st.sampled_from(sorted(ALL)), st.integers(0, 500)), max_size=3
    ),
    stored=st.booleans(),
)
def test_the_plan_is_the_one_that_is_made_without_the_core(
    asked: dict[LocationKey, tuple[str, int]],
    stored: bool,
    written: tuple[Path, StreamState],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    root, state = tmp_path_factory.mktemp("copies") / "root", written[1]
    shutil.copytree(written[0], root)
    place = StreamPlace(FS, Layout(root), TABLE, STREAM)
    for key, (change, number) in asked.items():
        ALL[change](location_path(root, key), number)
    if stored:
        state = resume(place, boot_id=FS.boot_id(), time_ms=1).state
        packed = state.locations.stored()
        assert packed is not None and len(packed.keys) == len(KEYS) - 2
    untouched = {key for key in KEYS if key not in asked}
    exact = exact_locations(place, state, KEYS)
    assert untouched <= exact <= {key for key in KEYS if key in untouched or asked[key][0] in HARMLESS}
    with pytest.MonkeyPatch.context() as patch:
        found = _plan(place, state)
        patch.setattr(directory_plan, "exact_locations", lambda *_: set())
        assert found == _plan(place, state)
    if all(change in HARMLESS for change, _ in asked.values()):
        assert found == Settlement()


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_each_change_is_seen(tmp_path: Path, change: str) -> None:
    place, state = _written(tmp_path)
    CHANGES[change](location_path(tmp_path, KEYS[3]), 77)
    assert exact_locations(place, state, KEYS) == {*KEYS} - {KEYS[3]}
    assert _plan(place, state) != Settlement()


def test_numbers_of_the_log_that_differ_are_seen(tmp_path: Path) -> None:
    place, state = _written(tmp_path)
    for number, change in enumerate(({"rows": 9}, {"epoch": 1}, {"time_ms": 5}, {"schema_version": 7})):
        state.locations[KEYS[number]] = replace(state.locations[KEYS[number]], **change)
    location = state.locations[KEYS[4]]
    other = {"N.dat": replace(location.files["N.dat"], crc=1)}
    state.locations[KEYS[4]] = replace(location, files={**location.files, **other})
    state.locations[KEYS[5]] = replace(state.locations[KEYS[5]], withdrawn=RowRanges.of([(0, 1)]))
    state.locations[KEYS[6]] = replace(state.locations[KEYS[6]], truncated=True)
    assert exact_locations(place, state, KEYS) == {KEYS[7]}


@pytest.mark.parametrize("mark", [TRUNCATED, WITHDRAWN])
def test_what_is_marked_in_the_head_is_not_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: int) -> None:
    place, _ = _written(tmp_path)
    state = resume(place, boot_id=FS.boot_id(), time_ms=1).state
    stored = state.locations.stored()
    assert stored is not None and state.locations.truncated() == []
    stored.numbers["marks"][1] |= mark
    stored.numbers["rows"][2] += 1
    monkeypatch.setattr(Locations, "stored", lambda _: stored)
    assert exact_locations(place, state, KEYS) == {*KEYS} - {*stored.keys[1:3]}


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    place, state = _written(tmp_path)
    for number, change in enumerate(("record missing", "file missing", "directory missing", "shorter")):
        CHANGES[change](location_path(tmp_path, KEYS[number]), number)
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert len(exact_locations(place, state, KEYS)) == 4
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("count", [1, 3000])
def test_no_byte_is_read_behind_what_was_given(tmp_path: Path, count: int) -> None:
    """Lengths and checksums, whole and cut off; more directories than a thread looks at."""
    (tmp_path / "d").mkdir()
    blank = b"12345678" + bytes(40)
    record = blank[:39] + b"\x08" + blank[40:]
    for name, data in (("a.dat", b"12345678"), ("table.size", record), ("table.tbl", b"")):
        (tmp_path / "d" / name).write_bytes(data)
    form = DirectoryForm(("a.dat",), (0,), blank, (8, 16, 24, 32, 40))
    sound = b"\x04\x08" + bytes(7), b"\x08\x08" + bytes(11)
    for packed in (*sound, sound[0][:-1], sound[1][:-1], b"\x05" + bytes(9), b"\x04", b""):
        with guarded(np.frombuffer(packed, np.uint8)) as octets:
            asked = Directories(tmp_path, [form], ["d"] * count, np.zeros(count, DIRECTORY), memoryview(octets))
            assert compare_directories(Fs(), asked).tolist() == [packed in sound] * count
