"""Directories that other writers make: each layout is taken, or refused with a command that takes it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.store.errors import InvalidNameError, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.transfer.tree_walk import ValueTemplate, is_midnight, proposed
from tests.support.commands import run, run_json
from tests.support.writers.import_cases import small, write

TEMPLATES = {
    ("{year}-{month:02}-{day:02}", "2026-1-5"): "2026-01-05",
    ("{year}-{month:02}-{day:02}", "2026-11-20"): "2026-11-20",
    ("d {day}", "0-0-07"): "d 07",
    ("{{x}}{year:04}", "26-0-0"): "{x}0026",
    ("{day:date}", "0-0-20261120"): "2026-11-20",
}


@pytest.mark.parametrize(("template", "given"), TEMPLATES)
def test_a_template(template: str, given: str) -> None:
    values = dict(zip(("year", "month", "day"), given.split("-"), strict=True))
    assert ValueTemplate.parse(template).value(values, "x") == TEMPLATES[template, given]


def test_the_form_of_a_date() -> None:
    dates = ["2026-11-20", "20261120", "2026-11-20 00:00:00", "2026-11-20T13:00:00.5+01:00", "2026-11-20_00"]
    template = ValueTemplate.parse("{d:date}")
    assert {template.value({"d": text}, "x") for text in dates} == {"2026-11-20"}
    for text in ("2026-13-20", "20-11-2026", "x", "", "2026112", "2026-11-20x"):
        with pytest.raises(InvalidNameError, match="does not have the form"):
            template.value({"d": text}, "x")
    for text in ("x", "1 ", "-1", ""):
        with pytest.raises(InvalidNameError, match="does not have the form"):
            ValueTemplate.parse("{d:02}").value({"d": text}, "x")


@pytest.mark.parametrize("text", ["", "2026", "{}", "{a:x}", "{a:2}", "{a", "a}", "{a!r:02d}", "{a:02}{b:00}"])
def test_wrong_templates(text: str) -> None:
    with pytest.raises(SettingsError, match="--value lacks keys"):
        ValueTemplate.parse(text)


def test_proposals_and_midnights() -> None:
    assert proposed([("date", "2026-11-20")]) == "{date}" and proposed([("ds", "20261120")]) == "{ds:date}"
    assert proposed([("year", "2026"), ("month", "1"), ("day", "2")]) == "{year:04}-{month:02}-{day:02}"
    hours = [("Year", "2026"), ("mm", "1"), ("dd", "2"), ("Hour", "3")]
    assert proposed(hours) == "{Year:04}-{mm:02}-{dd:02}-{Hour:02}"
    assert proposed([("year", "2026"), ("week", "1")]) is None and proposed([("a", "1"), ("b", "2")]) is None
    for text in ("2026-11-20 00:00:00", "2026-11-20T00:00:00Z", "2026-11-20 00:00:00.000", "2026-11-20T00:00:00+00:00"):
        assert is_midnight(text)
    assert not any(map(is_midnight, ("2026-11-20", "2026-11-20 07:00:00", "2026-11-20-00", "x 00:00:00")))


def put(path: Path, x: int = 1) -> None:
    write(path, [x])


def ymd(tree: Path) -> None:
    put(tree / "year=2026" / "month=1" / "day=5" / "a.parquet", 1)
    put(tree / "year=2026" / "month=11" / "day=20" / "a.parquet", 2)


TREES: dict[str, tuple[Any, list[str]]] = {
    "hive": (lambda tree: put(tree / "Date=2026-11-20" / "000000_0"), ["2026-11-20"]),
    "hive flat": (lambda tree: put(tree / "000000_0"), ["2026-11-20"]),
    "lower": (lambda tree: put(tree / "date=2026-11-20" / "a.parquet"), ["2026-11-20"]),
    "dt": (lambda tree: put(tree / "dt=20261120" / "a.parquet"), ["2026-11-20"]),
    "ymd": (ymd, ["2026-01-05", "2026-11-20"]),
    "hours": (lambda t: put(t / "year=2026" / "month=11" / "day=20" / "hour=7" / "a.parquet"), ["2026-11-20-07"]),
    "ts": (lambda tree: put(tree / "Date=2026-11-20 00%3A00%3A00" / "a.parquet"), ["2026-11-20"]),
    "ts T": (lambda tree: put(tree / "Date=2026-11-20T00%3A00%3A00Z" / "a.parquet"), ["2026-11-20"]),
}


@pytest.mark.parametrize("case", TREES)
def test_each_is_taken_at_once_or_by_the_command_of_the_hint(tmp_path: Path, case: str) -> None:
    make, expected = TREES[case]
    layout, tree = small(tmp_path / "db"), tmp_path / "tree"
    add_partition(Fs(), layout, "NS", "0")
    make(tree)
    words = ["import", "NS.T", "--from", str(tree), *(["--dates", expected[0]] if case == "hive flat" else [])]
    found = run(layout.root, *words, "--dry-run")
    if found.exit_code:
        assert found.exit_code == 2
        option = re.search(r"--value '[^']+'", found.stderr)
        assert option is not None, found.stderr
        words += shlex.split(option[0])
    assert ("do you mean Date?" in found.stderr) == (case == "lower")
    done = run(layout.root, *words)
    assert done.exit_code == 0, done.stderr
    assert sorted(path.name for path in (layout.partitions("NS") / "0").iterdir()) == expected


def test_an_instant_can_be_the_name_of_a_date_if_it_is_asked_for(tmp_path: Path) -> None:
    layout, tree = small(tmp_path / "db"), tmp_path / "tree"
    put(tree / "Date=2026-11-20 00%3A00%3A00" / "a.parquet")
    found = run(layout.root, "import", "NS.T", "--from", str(tree), "--dry-run")
    assert found.exit_code == 2 and "names an instant, not a date" in found.stderr
    for options in re.findall(r"--value '[^']+'", found.stderr):
        done = run(layout.root, "import", "NS.T", "--from", str(tree), "--dry-run", *shlex.split(options))
        assert done.exit_code == 0


REFUSED: dict[str, tuple[Any, tuple[str, ...], str]] = {
    "a level more": (lambda t: put(t / "Date=d" / "Other=a" / "a.parquet"), (), "name the keys of the date"),
    "a level less": (lambda t: put(t / "year=2026" / "a.parquet"), ("--value", "{year}-{month}"), "month=<value>"),
    "a key twice": (lambda t: put(t / "y=1" / "y=2" / "a.parquet"), ("--value", "{y}-{m}"), "m=<value>"),
    "a flat tree": (lambda t: put(t / "a.parquet"), ("--value", "{y}"), "leave --value out"),
    "a form": (lambda t: put(t / "y=x" / "a.parquet"), ("--value", "{y:04}"), "a number of 4 digits"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit(tmp_path: Path, case: str) -> None:
    make, options, said = REFUSED[case]
    layout, tree = small(tmp_path / "db"), tmp_path / "tree"
    make(tree)
    found = run(layout.root, "import", "NS.T", "--from", str(tree), "--dry-run", *options)
    assert found.exit_code == 2 and said in found.stderr


def test_other_files_are_called_by_their_kind_and_a_column_twice_has_its_own_hint(tmp_path: Path) -> None:
    layout, tree = small(tmp_path / "db"), tmp_path / "tree"
    put(tree / "Date=2026-11-20" / "a.parquet")
    (tree / "Date=2026-11-20" / "000000_1").write_bytes(b"ORC123")
    code, value = run_json(layout.root, "import", "NS.T", "--from", str(tree), "--dry-run")
    assert (code, value["error"]["found"]) == (2, "000000_1, a file of ORC")
    (tree / "Date=2026-11-20" / "000000_1").unlink()
    twice = pa.Table.from_arrays([pa.array(["a"]), pa.array([1]), pa.array([2])], names=["Sym", "X", "X"])
    pq.write_table(twice, tree / "Date=2026-11-20" / "a.parquet")
    code, value = run_json(layout.root, "import", "NS.T", "--from", str(tree), "--dry-run")
    assert (code, value["error"]["found"], value["error"]["hint"]) == (
        1,
        "X",
        "have the file written with one column of each name",
    )
