"""Roots that releases have written open for ever: each is read, verified, merged and continued.

``0.1``: by ``write_root``.
"""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.readers.inspect.any_file import inspect_file
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from tests.support.commands import run
from tests.support.places import GOLDEN

ROOTS = sorted(path.name.removesuffix(".tar.xz") for path in (GOLDEN / "roots").glob("*.tar.xz"))
pytestmark = pytest.mark.slow


class Golden:
    """An unpacked root, and the rows that went into it, by table."""

    def __init__(self, name: str, base: Path) -> None:
        with tarfile.open(GOLDEN / "roots" / f"{name}.tar.xz") as archive:
            archive.extractall(base, filter="tar")
        self.base, self.root = base, base / "db"
        self.given: dict[str, list[dict[str, Any]]] = json.loads((base / "given.json").read_text())

    def require_rows(self, root: Path | None = None, **more: list[dict[str, Any]]) -> None:
        for table, rows in self.given.items():
            read = open_table(root or self.root, table).to_arrow()
            assert counted(read.to_pylist()) == counted([*rows, *more.get(table.replace(".", "_"), [])]), table

    def require_sound(self) -> None:
        errors = [one for one in verify(Fs(), Layout(self.root), deep=True).findings if one.severity == "error"]
        assert errors == []

    def told(self, *words: str | Path, code: int = 0) -> list[dict[str, Any]]:
        found = run(self.root, *words, "--json")
        assert found.exit_code == code, found.stdout + found.stderr
        return [json.loads(line) for line in found.stdout.splitlines()]


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps({name: value(cell) for name, cell in row.items()}, sort_keys=True) for row in rows)


def value(cell: Any) -> Any:
    """Texts for what JSON has no form for."""
    return (
        cell
        if cell is None or isinstance(cell, str | int | bool)
        else repr(float(cell) if isinstance(cell, float) else cell)
    )


@pytest.mark.parametrize("name", ROOTS)
def test_a_root_of_a_release_opens_for_ever(tmp_path: Path, name: str) -> None:
    golden = Golden(name, tmp_path)
    golden.require_sound()
    golden.require_rows()
    for path in sorted(golden.root.rglob("*")):
        if path.is_file():
            inspected = inspect_file(Fs(), path)
            assert inspected.sound, (path, inspected.findings)
            assert inspected.kind != "unknown", path
    golden.told("recover")
    table = next(iter(golden.given))
    dates = sorted({row["Date"] for row in golden.given[table]})
    for words in ([], ["--rewrite", "--format", "both"]):
        golden.told("merge", table, "--dates", f"{dates[0]}..{dates[-1]}", "--local", *words)
        golden.require_rows()
    golden.told("validate", table, "--dates", dates[-1])
    golden.told("clean")
    golden.require_sound()


def test_a_stream_of_a_release_goes_on(tmp_path: Path) -> None:
    golden = Golden("0.1", tmp_path)
    row = {"A": 77, "G": "q", "N": "new", "C": 1.5, "I": 8}
    (tmp_path / "s7").mkdir()
    (tmp_path / "s7" / "later.json").write_text(json.dumps(row) + "\n")
    (line,) = golden.told("ingest", tmp_path / "s7.toml", "--once", "--local")
    assert line["rows"] == 1
    golden.require_rows(Test_Event=[{"Date": "2024-03-07", **row, "X": None}])
    assert golden.told("dates", "attach", "Test.Event", tmp_path / "out")[0]["date"] == "2024-03-06"
    assert len(open_table(golden.root, "Test.Event").to_arrow()) == len(golden.given["Test.Event"]) + 6
    (found,) = golden.told("quarantine", "list", "Test.Event", "s8")
    assert "no number" in json.dumps(found)
    golden.require_sound()
    assert run(tmp_path / "other", "restore", tmp_path / "copy").exit_code == 0
    golden.require_rows(tmp_path / "other")


@pytest.mark.parametrize("suffix", [".log", ".checkpoint", "history.json", "1.json", ".tlmi"])
def test_a_root_of_a_newer_release_is_refused_with_both_versions(tmp_path: Path, suffix: str) -> None:
    golden = Golden("0.1", tmp_path)
    golden.root = tmp_path / "other"
    assert run(golden.root, "restore", tmp_path / "copy").exit_code == 0
    path = next(path for path in sorted(golden.root.rglob("*")) if path.name.endswith(suffix))
    data = path.read_bytes()
    if suffix == "history.json":
        data = data.replace(b'"format": 4', b'"format": 9')
    elif suffix == ".tlmi":
        data = data[:7] + b"\x09" + data[8:]
    else:
        data = data[:6] + b"9" + data[7:]
    path.write_bytes(data)
    table = path.name.removesuffix(".history.json")
    words = ("schema", "history", table) if suffix == "history.json" else ("inspect", str(path))
    (line,) = golden.told(*words, code=1)
    error = line["error"] if "error" in line else line["findings"][0]
    assert "9" in error["found"] and error["expected"]
    assert path.read_bytes() == data
    place = TablePlace(Fs(), Layout(golden.root), TableName.parse("Test.Event"))
    assert place.fs.stat(place.schema) is not None
