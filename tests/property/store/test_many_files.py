"""Many small files and directories in a few calls of the core: the same as one by one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import SMALL_FILE, Fs
from sparkhaven.store.native.files import Portions, names_below, small_files
from tests.support.processes import open_below

FILES = {"empty": 0, "one": 1, "some": 700, "largest": SMALL_FILE - 1, "larger": SMALL_FILE, "é": 5}
DIRECTORIES = {"none in it": [], "few": ["b", "a", ".c"], "many": [f"{n:04}{'x' * 40}" for n in range(900)]}
OTHERS = ["missing", "one/below", "few/a/b", "dangling", "to one", "to few"]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    for name, size in FILES.items():
        (root / name).write_bytes(os.urandom(size))
    for name, entries in DIRECTORIES.items():
        (root / name).mkdir()
        for entry in entries:
            (root / name / entry).touch()
    (root / os.fsdecode(b"few/\xff")).touch()
    for link, target in (("dangling", "nothing"), ("to one", "one"), ("to few", "few")):
        (root / link).symlink_to(target)
    return root


FEW = Portions(least=1, together=3)
"""However few, the core is asked for them, in pieces."""
ANY = st.lists(st.sampled_from([*FILES, *DIRECTORIES, *OTHERS]), max_size=20)


@pytest.mark.parametrize("room", [SMALL_FILE, SMALL_FILE + 700, 1 << 20])
@settings(max_examples=40)
@given(parts=ANY)
def test_files_and_directories_are_the_same_as_one_by_one(room: int, parts: list[str], tree: Path) -> None:
    few = Portions(1, 3, room)
    assert list(small_files(Fs(), tree, parts, few)) == list(Fs().small_files(tree, parts))
    few = Portions(1, 3, room // 32)
    assert list(names_below(Fs(), tree, parts, few)) == list(Fs().names_below(tree, parts))


def test_what_cannot_be_read_is_asked_of_the_file_system(tree: Path) -> None:
    (tree / "loop").symlink_to("loop")
    assert list(small_files(Fs(), tree, ["one", "loop"], FEW))[1] is None
    with pytest.raises(OSError, match="loop"):
        list(names_below(Fs(), tree, ["few", "loop"], FEW))
    assert list(names_below(Fs(), tree / "missing", ["a"], FEW)) == [[]]
    assert list(small_files(Fs(), tree / "one", ["a"], FEW)) == [b""]
    assert list(names_below(Fs(), tree, ["few"], FEW)) == [sorted(os.listdir(tree / "few"))]  # noqa: PTH208


def test_the_core_reads_what_it_can_and_leaves_no_descriptor_open(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [*FILES, *DIRECTORIES, *OTHERS]
    asked: list[str] = []
    plain = Fs.small_files
    monkeypatch.setattr(Fs, "small_files", lambda fs, root, some: asked.extend(some) or plain(fs, root, some))
    assert (
        len(list(small_files(Fs(), tree, parts, FEW))) == len(list(names_below(Fs(), tree, parts, FEW))) == len(parts)
    )
    assert open_below(tree) == []
    assert asked == ["larger", *DIRECTORIES, "to few"]


def test_a_file_system_under_test_may_hinder_it(tree: Path) -> None:
    class Broken(Fs):
        def read_together(self, paths: Any, *_: Any) -> Any:
            raise CorruptFileError(f"hindered at {paths[0]}")

    with pytest.raises(CorruptFileError, match=f"hindered at {tree}/one"):
        list(small_files(Broken(), tree, ["one"], FEW))
