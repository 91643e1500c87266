"""Tables on a terminal: what is shown is whole, what is left out is counted; elsewhere everything is there."""

from __future__ import annotations

import os
import pty
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from sparkhaven.jobs.cli import text_table
from sparkhaven.jobs.cli.text_table import cells, terminal_width
from tests.support.places import REPOSITORY
from tests.support.tables.small_tables import SmallTable

NAMES = ("Sym", "Size", "Price", "At", "Text", "More", "Last")
ROW = ("AAPL", 9_007_199_254_740_993, 1.2345678901234567e-300, "2026-11-20T14:30:00.000000123+00:00", "x" * 70, -5, "z")


def shown(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    width: int,
    rows: Sequence[Sequence[object]],
    *,
    header: Sequence[str] = NAMES,
    hint: str = "",
) -> list[str]:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    text_table.table(header, rows, data=True, hint=hint)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("width", range(1, 200, 7))
def test_values_that_are_no_text_are_whole_or_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    head, row, *rest = shown(monkeypatch, capsys, width, [ROW])
    names = head.split()
    assert names == list(NAMES[: len(names)])
    assert len(row) <= max(width, len("AAPL"))
    for value in ROW[: min(len(names), 4)]:
        assert str(value) in row
    left = len(NAMES) - len(names)
    assert [line.split(" columns")[0] for line in rest] == ([f"{left} of {len(NAMES)}"] if left else [])


def test_texts_are_cut_before_columns_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head, row = shown(monkeypatch, capsys, 40, [("x" * 100, 12345678)], header=("Text", "Number"))
    assert (head.split(), row) == (["Text", "Number"], "x" * 29 + "…  12345678")
    assert shown(monkeypatch, capsys, 30, [("x" * 100, 12345678)], header=("Text", "Number")) == [
        "Text",
        "x" * 29 + "…",
        "1 of 2 columns are left out (Number). --json, or a pipe like `| less -S`, shows all",
    ]


def test_what_is_left_out_is_named_with_the_way_to_see_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    header = [f"c{number}" for number in range(30)]
    last = shown(monkeypatch, capsys, 20, [range(30)], header=header, hint="--vertical shows all")[-1]
    assert last == "25 of 30 columns are left out (c5, c6, c7, c8, c9, ...). --vertical shows all"


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("abc", 3),
        ("日本", 4),
        ("e\u0301", 1),
        ("\u1112\u1161\u11ab", 2),
        ("ＡＢ", 4),
        ("ﾊﾟ", 2),
        ("é", 1),
        ("🙂", 2),
        ("", 0),
    ],
)
def test_signs_are_as_wide_as_a_terminal_draws_them(text: str, width: int) -> None:
    assert cells(text) == width


def test_columns_of_wide_and_combining_signs_stand_below_each_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["日本語" * 20, "e\u0301" * 5, "plain", "한글", "ｶﾞ", "a日" * 30]
    out = shown(monkeypatch, capsys, 40, [(text, number) for number, text in enumerate(texts)], header=("名前", "n"))
    assert {cells(line) for line in out} == {40}
    assert [re.split(" +", line)[-1] for line in out] == ["n", *"012345"]


def test_random_tables_never_cut_a_number(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(7)
    for _ in range(200):
        header = [f"c{number}{'x' * chance.randrange(9)}" for number in range(chance.randrange(1, 12))]
        rows = [
            [chance.choice((1, -1)) * chance.getrandbits(chance.randrange(1, 64)) for _ in header] for _ in range(5)
        ]
        width = chance.randrange(1, 120)
        head, *out = shown(monkeypatch, capsys, width, rows, header=header)
        kept = len(head.split())
        assert head.split() == header[:kept]
        assert [line.split() for line in out[:5]] == [[str(value) for value in row[:kept]] for row in rows]
        assert kept == 1 or max(map(len, (head, *out[:5]))) <= width
        assert (len(out) == 6) == (kept < len(header))


def test_elsewhere_all_columns_are_whole(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    text_table.table(NAMES, [ROW], data=True)
    assert capsys.readouterr().out.splitlines()[1].split() == [str(value) for value in ROW]


def test_one_column_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    text_table.vertical(("Sym", "名前"), [("A\n", "日本"), (None, "x" * 300)])
    assert capsys.readouterr().out.splitlines() == [
        "row 1",
        "  Sym   A\\n",
        "  名前  日本",
        "row 2",
        "  Sym   -",
        "  名前  " + "x" * 300,
    ]


def test_the_width_is_that_of_the_environment_first() -> None:
    assert terminal_width({"COLUMNS": "33"}) == 33
    for unusable in ("", "0", "x", "-5"):
        assert terminal_width({"COLUMNS": unusable}) == 80  # standard output of a test is no terminal


@pytest.mark.slow
def test_a_terminal_gets_what_it_has_room_for(tmp_path: Path) -> None:
    SmallTable(tmp_path).add("a", "2026-11-20", {"Size": [2**30], "At": [1_795_089_600_000_000_123]})
    line = [sys.executable, "-m", "sparkhaven.jobs.cli.main", "--root", str(tmp_path), "read", "NS.T"]
    outputs = []
    for columns, more in (("40", []), ("40", ["--vertical"]), ("", [])):
        ours, theirs = pty.openpty()
        environ = {**os.environ, "COLUMNS": columns, "TERM": "dumb"}
        subprocess.run([*line, *more], cwd=REPOSITORY, env=environ, stdout=theirs, stderr=theirs, check=True)
        os.close(theirs)
        outputs.append(os.read(ours, 65536).decode().replace("\r\n", "\n"))
        os.close(ours)
    narrow, vertical, unknown = outputs
    assert "columns are left out (" in narrow and "). --vertical shows all, --columns A,B chooses" in narrow
    assert max(map(len, narrow.splitlines()[:2])) <= 40
    assert f"  Size  {2**30}\n" in vertical and "left out" not in vertical
    assert max(map(len, unknown.splitlines()[:2])) <= 80
