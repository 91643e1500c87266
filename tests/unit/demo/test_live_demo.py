"""The live demo's own checks: a lost, doubled or changed trade is seen, and a picture is taken of a grid with rows."""

from __future__ import annotations

from array import array
from pathlib import Path

import pyarrow as pa
import pytest

from demo.live.browser import Browser, program
from demo.live.trades import SCHEMA, compare, message, produced, values
from sparkhaven.store.errors import RetryableFeedError

NOW = 1_700_000_000_000_000


@pytest.fixture
def sent() -> pa.Table:
    return produced(array("q", [NOW + n for n in range(50)]))


def test_trades_in_any_order_are_those_that_were_sent(sent: pa.Table) -> None:
    shuffled = sent.take(pa.array([*range(25, 50), *range(25)]))
    found = compare(sent, shuffled.append_column("Date", [["2023-11-14"] * 50]), "here")
    assert [figure.found for figure in found] == [50, 50, 250]
    assert all(figure.ok for figure in found)
    assert (
        message(7, NOW + 7)
        == b'{"Sym": "IBM", "Seq": 7, "Price": %.2f, "Size": 450, "At": 1700000000000007}' % (values(7)[1])
    )


def test_lost_doubled_and_changed_trades_are_seen(sent: pa.Table) -> None:
    assert not all(figure.ok for figure in compare(sent, sent.slice(1), "here"))
    doubled = sent.take(pa.array([0, *range(49)]))
    assert [figure.ok for figure in compare(sent, doubled, "here")] == [True, False]
    for name, other in (("Price", 0.5), ("Sym", None), ("At", None)):
        column = [other, *sent[name].to_pylist()[1:]]
        place = sent.schema.get_field_index(name)
        changed = sent.set_column(place, name, pa.array(column, SCHEMA.field(name).type))
        assert compare(sent, changed, "here")[-1].found == 249
    assert produced(array("q")).num_rows == 0


PAGE = """<canvas width="600" height="400"></canvas><script>
setTimeout(() => {
  const drawn = document.querySelector("canvas").getContext("2d");
  for (let at = 0; at < %d; at++) { drawn.fillStyle = `rgb(${at}, 80, 90)`; drawn.fillRect(at * 6, 70, 6, 60); }
}, 300)</script>"""


@pytest.mark.slow
@pytest.mark.skipif(program() is None, reason="no browser: `apt install chromium` installs one")
def test_a_picture_is_taken_once_the_grid_has_rows(tmp_path: Path) -> None:
    path = program()
    assert path is not None
    for name, shades in (("full", 90), ("empty", 2)):
        (tmp_path / f"{name}.html").write_text(PAGE % shades, encoding="utf-8")
    with Browser(path, tmp_path) as browser:
        assert browser.picture((tmp_path / "full.html").as_uri()).startswith(b"\x89PNG")
        browser.patience = 1.0
        with pytest.raises(RetryableFeedError, match="does not show the grid"):
            browser.picture((tmp_path / "empty.html").as_uri())


def test_a_browser_that_does_not_start_is_reported(tmp_path: Path) -> None:
    with Browser("/bin/false", tmp_path) as browser, pytest.raises(RetryableFeedError, match="does not show the grid"):
        browser.picture("about:blank")
