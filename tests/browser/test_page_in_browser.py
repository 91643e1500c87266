"""The operations page in a real browser: all of it is there, offline, by keyboard, in light and dark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demo.live.browser import program
from sparkhaven.jobs.cli.reading.page import PageCache, serving
from sparkhaven.jobs.monitor.page.document import SECTIONS, page
from sparkhaven.jobs.monitor.page.pictures import Drawings
from tests.support.browser import HOW, Browser, browsing
from tests.support.page_facts import facts, small_table

pytestmark = [pytest.mark.browser, pytest.mark.skipif(program() is None, reason=HOW)]

TAB, ENTER = ("Tab", 9), ("Enter", 13)
FOCUSED = """(() => { const e = document.activeElement; return [e.tagName.toLowerCase(),
  e.getAttribute("href") || e.getAttribute("aria-label") || e.textContent.trim()]; })()"""
SHOWN = """[...document.querySelectorAll("section, figure svg, section table:not(details table)")].filter(
  e => e.checkVisibility()).map(e => {
  const r = e.getBoundingClientRect();
  return [e.id || e.tagName, r.width, r.height, getComputedStyle(e).visibility]; })"""
WIDE_PARTS = """[...document.querySelectorAll("section p, nav, h1, h2, h3, section table:not(details table), svg")]
  .filter(e => e.checkVisibility()).map(e => [e.tagName, e.getBoundingClientRect()])
  .filter(([_, r]) => r.left < 0 || r.right > innerWidth).map(([name, r]) => [name, r.left, r.right])"""
BARS = """[...document.querySelectorAll('#streams svg path[fill="var(--rows)"]')].filter(e => e.checkVisibility())
  .map(e => e.getBoundingClientRect()).map(r => [r.left, r.right])"""


BROKEN_WORDS = r"""[...document.querySelectorAll("code")].filter(e => e.checkVisibility()).flatMap(code => {
  const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT), broken = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    for (const word of node.data.matchAll(/\S+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1) broken.push(word[0]);
    }
  return broken; })"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def drawings() -> Drawings:
    return Drawings()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, drawings: Drawings) -> str:
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_bytes(page(facts(small_table()), drawings))
    return path.as_uri()


def opened(browser: Browser, url: str) -> Browser:
    browser.events.clear()
    browser.size(1200, 900)
    browser.open(url)
    return browser


def complaints(browser: Browser) -> list[object]:
    """Whatever the browser did not like."""
    return [*browser.of("Log.entryAdded"), *browser.of("Runtime.consoleAPICalled", "Runtime.exceptionThrown")]


def asked(browser: Browser) -> list[str]:
    """The addresses that the page has asked for."""
    urls = [str(each["request"]["url"]) for each in browser.of("Network.requestWillBeSent")]
    return [url for url in urls if not url.startswith("data:")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_section_is_shown_offline_without_a_complaint(browser: Browser, file: str, scheme: str) -> None:
    browser.colours(scheme)
    opened(browser, file)
    shown = browser.run(SHOWN)
    keys = [key for key, _, _ in SECTIONS]
    assert [each[0] for each in shown if each[0] in keys] == keys
    assert [each for each in shown if each[1] < 100 or each[2] < 20 or each[3] != "visible"] == []
    assert [each[0] for each in shown].count("svg") == 5
    assert complaints(browser) == []
    assert asked(browser) == [file]
    back, text = browser.run("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
    assert (back, text) == {
        "light": ("rgb(255, 255, 255)", "rgb(27, 31, 36)"),
        "dark": ("rgb(13, 17, 23)", "rgb(230, 237, 243)"),
    }[scheme]
    tier = "getComputedStyle(document.querySelector('#dates svg path[fill=\"var(--merged)\"]')).fill"
    assert browser.run(tier) == {"light": "rgb(169, 208, 247)", "dark": "rgb(31, 82, 135)"}[scheme]
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width", [360, 420, 640, 641])
def test_all_of_it_fits_into_a_small_window(browser: Browser, file: str, width: int) -> None:
    """At 360 only the page itself does; pictures scroll in their region."""
    opened(browser, file)
    browser.size(width, 900)
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    bars = browser.run(BARS)
    assert len(bars) == 30
    if width in (420, 640):
        assert browser.run(WIDE_PARTS) == []
        assert max(right for _, right in bars) <= width
    assert browser.run("[...document.querySelectorAll('figure svg')].filter(e => e.checkVisibility()).length") == 5
    assert complaints(browser) == []


@pytest.mark.parametrize("width", [360, 420, 640, 1200])
def test_words_of_a_command_stay_whole(browser: Browser, file: str, width: int) -> None:
    opened(browser, file)
    browser.size(width, 900)
    commands = browser.run("[...document.querySelectorAll('code')].map(e => e.textContent)")
    assert "sparkhaven --root /db merge NS.T --dates 2026-09-01" in commands
    assert browser.run(BROKEN_WORDS) == []


@pytest.mark.parametrize("width", [420, 1200])
def test_epochs_fill_their_axis(browser: Browser, file: str, width: int) -> None:
    """The 30 epochs are of half an hour, the hours of the page are 24."""
    opened(browser, file)
    browser.size(width, 900)
    bars = sorted(browser.run(BARS))
    picture = browser.run(
        "[...document.querySelectorAll('#streams svg')].find(e => e.checkVisibility()).getBoundingClientRect().width"
    )
    assert bars[-1][1] - bars[0][0] > 0.6 * picture
    assert "2026-09-21, UTC" in browser.run("document.querySelector('#streams').textContent")


def test_it_is_used_by_keyboard_in_the_order_in_which_it_is_read(browser: Browser, file: str) -> None:
    opened(browser, file)
    order = []
    for _ in range(13):
        browser.press(*TAB)
        order.append(browser.run(FOCUSED))
    assert order[0] == ["a", "#content"]
    assert [each[1] for each in order[1:8]] == [f"#{key}" for key, _, _ in SECTIONS]
    assert order[8][0] == "div" and order[8][1].startswith("Findings of")
    assert order[9] == ["div", "Picture: 30 epochs, 735 rows"]
    assert order[10] == ["summary", "Table: 30 epochs, 735 rows"]
    assert order[11] == [
        "div",
        "Picture: tiers and rows of NS.T, 5 dates and 2 sources",
    ]  # a table that is closed is passed over
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for _ in range(2):
        browser.press(*TAB, shift=True)
    assert browser.run(FOCUSED)[0] == "summary"
    assert not browser.run("document.activeElement.parentElement.open")
    browser.press(*ENTER)
    assert browser.run("document.activeElement.parentElement.open")
    browser.press(*TAB)
    assert browser.run(FOCUSED) == ["div", "30 epochs, 735 rows"]


def test_a_served_page_refreshes_what_has_changed(browser: Browser, drawings: Drawings) -> None:
    tables = [small_table()]
    now = [0.0]
    pages = PageCache(lambda: page(facts(*tables), drawings, live=True), lambda: now[0])
    with serving(pages, "127.0.0.1", 0, print) as url:
        opened(browser, url)
        assert complaints(browser) == []
        assert asked(browser) == [url]
        browser.run("document.querySelector('#streams details').open = true")
        browser.run("window.old = document.querySelector('#dates figure'); null")
        tables[:], now[0] = [small_table(errors=())], 60.0
        browser.run("refresh()")
        assert browser.run("document.querySelector('#errors').textContent.includes('None.')")
        assert browser.run("window.old === document.querySelector('#dates figure')")  # the same node as before
        assert browser.run("document.querySelector('#streams details').open")
        browser.run("document.getElementById('refresh').checked = false")
        tables[:], now[0] = [small_table()], 120.0
        browser.run("refresh()")
        assert browser.run("document.querySelector('#errors').textContent.includes('None.')")
        assert complaints(browser) == []
    browser.run("document.getElementById('refresh').checked = true; refresh()")
    assert "does not answer" in browser.run("document.getElementById('state').textContent")
