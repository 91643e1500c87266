"""`sparkhaven merge --dedupe` and its kin: what a person sees, a rule of the schema, and a date after a rename."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.readers.arrow.opening import open_table
from tests.support.commands import run
from tests.support.streams.schema_site import DAY, TABLE, Site, schema

RULE = '<MergeAttributes lastBy="A" orderBy="C"/>'


def put(site: Site, *rows: tuple[int, str, float]) -> None:
    for a, b, c in rows:
        site.put({"A": a, "B": b, "C": c})
    site.ingest()


@pytest.mark.slow
def test_a_day_that_was_sent_twice(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.stream()
    put(site, (1, "x", 1.0), (2, "y", 2.0), (1, "x", 1.0), (2, "other", 2.0))
    shown = site.do("merge", TABLE, "--date", DAY, "--local", "--dedupe", "A", "--dry-run")
    done = site.do("merge", TABLE, "--date", DAY, "--local", "--dedupe", "A")
    assert (shown["outcome"], done["outcome"]) == ("planned", "merged")
    for told in (shown, done):
        counts = {name: told[name] for name in ("rows_in", "rows_out", "rows_dropped", "rows_identical")}
        assert counts == {"rows_in": 4, "rows_out": 2, "rows_dropped": 2, "rows_identical": 1}
    assert [row["B"] for row in site.rows("A", "B")] == ["x", "y"]
    site.write(schema({"K": "long", "B": "String", "C": "double"}))
    site.deploy("--rename", "A=K")
    again = site.do("merge", TABLE, "--date", DAY, "--local", "--rewrite")
    assert (again["rows_out"], again["rows_dropped"]) == (2, 2)
    site.night()
    assert [row["B"] for row in site.rows("K", "B")] == ["x", "y"]


@pytest.mark.slow
def test_a_column_of_the_last_rule_that_is_gone_is_named(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.stream()
    put(site, (1, "x", 1.0), (1, "x", 1.0))
    site.merge("--dedupe", "A")
    site.write(schema({"B": "String", "C": "double"}))
    site.deploy("--drop", "A")
    failed = site.do("merge", TABLE, "--date", DAY, "--local", "--rewrite", code=2)["error"]
    assert (failed["what"], failed["found"]) == ("duplicates cannot be told by these columns", "A")
    assert site.do("merge", TABLE, "--date", DAY, "--local", "--dedupe", "none")["rows_out"] == 2


@pytest.mark.slow
def test_a_rule_of_the_schema_is_shown_and_needs_a_command_to_change(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.write(schema(extra=RULE).replace("double", "long"))
    site.stream()
    site.put({"A": 1, "B": "new", "C": 2})
    site.put({"A": 1, "B": "old", "C": 1})
    site.ingest()
    assert site.do("schema", "show", TABLE)["duplicates"] == "--dedupe A --keep last --order-by C"
    site.night()
    assert [row["B"] for row in site.rows("A", "B")] == ["new"]
    site.write(schema().replace("double", "long"))
    assert "changes MergeAttributes" in site.ingest(code=2)
    site.deploy()
    assert "duplicates" not in site.do("schema", "show", TABLE)


@pytest.mark.slow
def test_texts_of_order_by_are_compared_by_code_point_and_those_of_sort_by_utf_16_unit(tmp_path: Path) -> None:
    """As the help of both says. The orders differ where a sign from U+10000 on meets one from U+E000 to U+FFFF."""
    site = Site(tmp_path)
    site.stream()
    high, higher = "\uffee", "\U0001f600"
    put(site, (1, higher, 1.0), (1, high, 2.0), (2, high, 3.0), (3, higher, 4.0))
    site.merge("--dedupe", "A", "--keep", "last", "--order-by", "B", "--sort", "B,A")
    stored = open_table(site.root, TABLE).to_arrow(["A", "B"], tier="history")
    assert [*zip(*stored.to_pydict().values(), strict=True)] == [(1, higher), (3, higher), (2, high)]
    help_text = " ".join(run(site.root, "merge", "--help").output.split())
    assert "Texts by UTF-16 unit" in help_text and "Texts by code point" in help_text
