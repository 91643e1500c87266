"""`make fuzz` says how many inputs each target had, how quick it was, and ends with a verdict."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from native.fuzz import run as module


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """Targets that are run, with rounds and seed; csv is broken."""
    found: list[tuple[str, int, int]] = []

    def made(scratch: Path, target: str, rounds: int, seed: int) -> list[str]:
        assert scratch.is_dir()
        found.append((target, rounds, seed))
        return ["sh", "-c", f"exit {3 if target == 'csv' else 0}"]

    monkeypatch.setattr(module, "made", made)
    return found


def test_all_pass(calls: list[tuple[str, int, int]], capsys: pytest.CaptureFixture[str]) -> None:
    assert module.main(["--total", "1_001", "--seed", "5", "--targets", "json", "batches"]) == 0
    assert calls == [("json", 501, 5), ("batches", 501, 5)]
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(" in ")[0] for line in said[1:4:2]] == ["json: passed", "batches: passed"]
    assert said[1].endswith("inputs a second")
    assert said[-1] == "fuzz: passed: 1,002 inputs, 501 of each of json, batches"


def test_one_fails(calls: list[tuple[str, int, int]], capsys: pytest.CaptureFixture[str]) -> None:
    assert module.main(["--rounds", "9", "--targets", "csv", "json"]) == 1
    assert [target for target, *_ in calls] == ["csv", "json"]  # the others are tried too
    said = capsys.readouterr().out.splitlines()
    assert "csv: FAILED" in said[1] and said[1].endswith("with code 3")
    assert said[-1].startswith("fuzz: FAILED: csv. ") and said[-1].endswith("--rounds 9 --seed 1 --targets csv")


def test_without_a_compiler_nothing_has_passed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert module.main(["--rounds", "9"]) == 2
    assert "install gcc" in capsys.readouterr().out


def test_a_clang_is_taken_if_it_has_the_fuzzer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, code in (("clang", 1), ("clang-14", 0), ("clang-13", 0), ("clang-format-14", 0)):
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {code}\n", encoding="ascii")
        (tmp_path / name).chmod(0o755)
    assert module.libfuzzer(tmp_path) == "clang-14"
    for name in ("clang-14", "clang-13"):
        (tmp_path / name).unlink()
    assert module.libfuzzer(tmp_path) is None


@pytest.mark.parametrize("words", [["--rounds", "0"], ["--total", "-1"], ["--rounds", "5", "--total", "5"]])
def test_no_inputs_are_not_a_pass(words: list[str], calls: list[tuple[str, int, int]]) -> None:
    with pytest.raises(SystemExit) as caught:
        module.main(words)
    assert caught.value.code == 2 and not calls


def test_each_target_of_the_folder_is_run() -> None:
    assert set(module.TARGETS) >= {"csv", "json", "batches"}
