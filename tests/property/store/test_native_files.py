"""Small files read at once: the compiled core and the plain way take the same files, with the same bytes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.files import read_files
from tests.oracles.columns import plain_read_files
from tests.support.guard_pages import guarded
from tests.support.processes import open_below

NOBODY = 65534
HEAD = b"head of a column"
DAMAGES = ("none", "short", "shorter than its head", "empty", "longer", "other head", "missing", "directory", "loop")
WAYS = {"core": read_files, "plain": plain_read_files}


def _make(path: Path, data: bytes, damage: str, head: bytes) -> None:
    whole = {
        "short": head + data[:-1],
        "shorter than its head": head[:-1],
        "empty": b"",
        "longer": head + data + b"more",
        "other head": head[:-1] + b"?" + data,
    }
    if damage == "directory":
        path.mkdir()
    elif damage == "loop":
        path.symlink_to(path.name)
    elif damage != "missing":
        path.write_bytes(whole.get(damage, head + data))


@settings(max_examples=60)
@given(
    files=st.lists(st.tuples(st.integers(1, 9000), st.sampled_from(DAMAGES)), max_size=12),
    head=st.sampled_from([HEAD, b"x" * 4096]),
)
def test_files_are_taken_as_they_should_be(
    files: list[tuple[int, str]], head: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("files")
    paths = [place / f"{number} é.dat" for number in range(len(files))]
    contents = [np.random.default_rng(number).bytes(size) for number, (size, _) in enumerate(files)]
    for path, data, (_, damage) in zip(paths, contents, files, strict=True):
        _make(path, data, damage, head)
    sizes, wanted = [size for size, _ in files], [damage in ("none", "longer") for _, damage in files]
    for way in WAYS.values():
        with guarded(np.zeros(sum(sizes), np.uint8)) as out:
            assert way(Fs(), [str(path) for path in paths], head, sizes, out).tolist() == wanted
            at = 0
            for data, right in zip(contents, wanted, strict=True):
                assert not right or out[at : at + len(data)].tobytes() == data
                at += len(data)


@pytest.mark.parametrize("way", WAYS)
def test_a_head_alone_and_data_without_one(tmp_path: Path, way: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(HEAD)
    out = np.zeros(len(HEAD), np.uint8)
    assert WAYS[way](Fs(), [str(path)], HEAD, [0], out[:0]).tolist() == [True]
    assert WAYS[way](Fs(), [str(path)], b"", [len(HEAD)], out).tolist() == [True]
    assert out.tobytes() == HEAD


@pytest.mark.parametrize("way", WAYS)
def test_a_link_to_a_file_is_followed(tmp_path: Path, way: str) -> None:
    (tmp_path / "file").write_bytes(HEAD + b"12")
    (tmp_path / "link").symlink_to("file")
    out = np.zeros(2, np.uint8)
    assert WAYS[way](Fs(), [str(tmp_path / "link")], HEAD, [2], out).tolist() == [True]
    assert out.tobytes() == b"12"


def test_a_pipe_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read_files(Fs(), [str(tmp_path / "pipe")], b"", [2], np.zeros(2, np.uint8)).tolist() == [False]


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_may_not_be_read(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, mode in (("closed", 0), ("open", 0o444)):
        (tmp_path / name).write_bytes(HEAD)
        (tmp_path / name).chmod(mode)
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    user = os.geteuid()
    os.seteuid(NOBODY if user == 0 else user)  # root may read every file
    try:
        found = WAYS[way](Fs(), ["closed", "open"], HEAD, [0, 0], np.zeros(0, np.uint8))
    finally:
        os.seteuid(user)
    assert found.tolist() == [False, True]


@pytest.mark.parametrize("sizes", [[3], [-1], [1, 1], []])
def test_bytes_that_do_not_fit_are_refused(sizes: list[int]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        read_files(Fs(), ["one"], b"", sizes, np.zeros(2, np.uint8))


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(HEAD)
    (tmp_path / "directory").mkdir()
    for name in ("file", "directory", "missing"):
        for size in (0, 1):
            read_files(Fs(), [str(tmp_path / name)], HEAD, [size], np.zeros(1, np.uint8))
    assert open_below(tmp_path) == []


def test_a_file_system_under_test_may_hinder_it(tmp_path: Path) -> None:
    class Broken(Fs):
        def read_together(self, *_: Any) -> Any:
            raise CorruptFileError("hindered")

    with pytest.raises(CorruptFileError, match="hindered"):
        read_files(Broken(), [str(tmp_path)], b"", [0], np.zeros(0, np.uint8))
