"""A measured figure is written in one file; pages hold it between markers, and no copy of it elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.figures import NEW, rewrite
from tests.support.docs.pages import PAGES
from tests.support.places import REPOSITORY
from tools.docs import figures as tables
from tools.docs.figures import FIGURES, figure, figure_table, figures, named, peer_table
from tools.docs.pages import FIGURE, PART, filled, main

EVIDENCE = {"docs/evidence/crash-results.md", "docs/evidence/damage.md"}
CURRENT = [
    page for page in PAGES if "decisions" not in page.parts and str(page.relative_to(REPOSITORY)) not in EVIDENCE
]
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
BENCHMARK = re.compile(r"benchmarks\.[a-z]")
MEASURED = re.compile(r"\b\d[\d.,]* ?(?:s|ms|GB/s|M values/s|×(?! \d))(?![\w/])")
COPY = re.compile(
    r"(?<![\d.,])(?:"
    + "|".join(
        re.escape(figure(name))
        for name, entry in figures().items()
        if len(re.sub(r"\D", "", entry["value"]).lstrip("0")) > 1
    )
    + r")(?![\w/])"
)
OWN = {"docs/explanation/speed.md", "docs/howto/cluster.md", "docs/howto/spark.md"}  # figures of these pages alone


def typed(page: Path) -> str:
    """What a person has typed into a page, without sessions."""
    text = page.read_text(encoding="utf-8")
    return FIGURE.sub("", PART.sub("", BLOCK.sub("", text)))


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_no_page_has_a_copy_of_a_figure(page: Path) -> None:
    """Two digits or more: one digit is rather another number than a copy."""
    assert COPY.findall(typed(page)) == []


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_beside_the_name_of_a_benchmark_figures_are_marked(page: Path) -> None:
    if str(page.relative_to(REPOSITORY)) in OWN:
        return
    lines = [line for line in typed(page).splitlines() if BENCHMARK.search(line) and MEASURED.search(line)]
    assert lines == []


def test_a_copy_is_found() -> None:
    assert COPY.search(f"takes {figure('kafka')} from Kafka") and not COPY.search(f"takes 1{figure('kafka')}")
    assert MEASURED.search("takes 0.47 s of a batch") and MEASURED.search("1.16 × the time")
    assert not MEASURED.search("20 M rows × 10 columns")


def test_every_figure_names_a_benchmark_and_its_measurement() -> None:
    for name, entry in figures().items():
        assert {*entry} - {"note"} == {"value", "unit", "command", "date", "commit"}, name
        module = REPOSITORY / "benchmarks" / entry["command"].replace(".", "/")
        assert any(path.is_file() for path in (module.with_suffix(".py"), module / "__main__.py")), name


def test_parts_and_figures_are_filled_and_stay_so() -> None:
    text = "<!-- generated: one -->\nold\n<!-- end: one -->\ntakes <!-- figure: kafka --><!-- end -->.\n"
    now = filled(text, {"one": lambda: "new\n"})
    assert now == (
        "<!-- generated: one -->\n\nnew\n\n<!-- end: one -->\n"
        f"takes <!-- figure: kafka -->{figure('kafka')}<!-- end -->.\n"
    )
    assert filled(now, {"one": lambda: "new\n"}) == now


@pytest.mark.parametrize("text", ["<!-- generated: one -->\n", "<!-- figure: kafka -->0.5 s\n"])
def test_a_marker_without_its_end_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="without its end"):
        filled(text, {"one": str})


def test_a_stale_page_fails_the_check_and_is_written(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    page = tmp_path / "README.md"
    page.write_text("<!-- figure: kafka -->9 s<!-- end -->\n")
    assert main(["--check"], tmp_path) == 1
    assert "9 s" in page.read_text()
    assert main([], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0
    assert figure("kafka") in page.read_text()


def test_a_benchmark_writes_its_figure_with_the_former_digits(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    path.write_text(FIGURES.read_text(encoding="utf-8"), encoding="utf-8")
    rewrite(path, {"kafka": 0.4567, "latency.delta.p99": 2345.6}, "2027-01-02", "abc")
    before, after = figures(), json.loads(path.read_text(encoding="utf-8"))
    assert after["kafka"] == {**before["kafka"], "value": "0.46", "date": "2027-01-02", "commit": "abc"}
    assert after["latency.delta.p99"]["value"] == "2,346"
    assert {name: entry for name, entry in after.items() if entry["date"] != "2027-01-02"} == {
        name: entry for name, entry in before.items() if name not in ("kafka", "latency.delta.p99")
    }
    assert len(path.read_text(encoding="utf-8").splitlines()) == len(before) + 2


def test_benchmarks_record_figures_that_there_are() -> None:
    for path in (REPOSITORY / "benchmarks").rglob("*.py"):
        recorded = set(re.findall(r'"((?:[a-z_]+\.)?[a-z0-9_]+(?:\.[a-z0-9_]+)*)": ', path.read_text(encoding="utf-8")))
        heads = {name.partition(".")[0] for name in figures()}
        wrong = {name for name in recorded if "." in name and name.partition(".")[0] in heads}
        assert wrong - figures().keys() - NEW.keys() == set(), path


def test_a_first_figure_has_the_unit_and_digits_that_are_said_of_it(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    path.write_text("{}")
    rewrite(path, {"merge.cold": 4.26, "live.small.ratio": 0.571}, "2027-01-02", "abc")
    entries = json.loads(path.read_text(encoding="utf-8"))
    entry = {"command": "merge_speed", "date": "2027-01-02", "commit": "abc"}
    assert entries["merge.cold"] == {"value": "4.3", "unit": "s", **entry}
    assert entries["live.small.ratio"]["value"] == "0.57"
    with pytest.raises(KeyError):
        rewrite(path, {"merge.cool": 1.0}, "2027-01-02", "abc")


def test_tables_name_figures_that_there_are_or_that_a_benchmark_will_record() -> None:
    missing = named() - figures().keys()
    assert missing - NEW.keys() == set(), "give unit, digits and command of a new figure in benchmarks/figures.py"
    if missing:
        print("not measured:", *sorted({f"python -m benchmarks.{NEW[name][2]} --record" for name in missing}), sep="\n")


def test_a_row_without_its_figure_is_left_out_and_the_next_has_its_subject(monkeypatch: pytest.MonkeyPatch) -> None:
    peers, kept = peer_table(), dict(figures())
    without = {name: entry for name, entry in kept.items() if name not in ("kafka.parquet", "commit.cost")}
    monkeypatch.setattr(tables, "figures", lambda: without)
    row = f"| the same messages from Kafka | {kept['kafka']['value']} s | Spark into Delta |"
    assert row in peer_table() and row not in peers
    assert len(peer_table().splitlines()) == len(peers.splitlines()) - 1
    assert "commit and publish at epoch 20,000" not in figure_table()
