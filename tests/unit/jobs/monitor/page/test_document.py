"""The document of the operations page: complete, legible, bounded, and no name of the tree becomes markup."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from urllib.parse import urlsplit

import pytest

from sparkhaven.jobs.monitor.dates import TIERS, Cell
from sparkhaven.jobs.monitor.doctor.finding import DoctorFinding
from sparkhaven.jobs.monitor.page.document import REFRESH, SECTIONS, STYLE, page
from sparkhaven.jobs.monitor.page.markup import picture, table, written
from sparkhaven.jobs.monitor.page.pictures import Drawings
from sparkhaven.jobs.monitor.page.summary import ErrorFacts, PageFacts, PageTable, PageWaiting
from sparkhaven.jobs.monitor.rejected import PendingRows
from sparkhaven.jobs.monitor.storage import VolumeUse
from sparkhaven.jobs.monitor.symbols import SymbolSizes
from tests.support.html_tree import Node, parse
from tests.support.page_facts import HOSTILE, LATE, epochs, facts, small_table, stream

TAGS = {
    *("html", "head", "meta", "link", "title", "style", "body", "header", "nav", "main", "section", "h1", "h2", "h3"),
    *("div", "span", "p", "a", "ul", "li", "time", "code", "table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("figure", "figcaption", "details", "summary", "svg", "g", "path", "text", "line", "rect"),
}


@pytest.fixture(scope="module")
def draw() -> Drawings:
    """The real library; it starts once."""
    return Drawings()


@pytest.fixture(scope="module")
def whole(draw: Drawings) -> Node:
    return parse(page(facts(small_table()), draw))


def made(draw: Drawings, found: PageFacts) -> Node:
    return parse(page(found, draw))


def section(document: Node, key: str) -> Node:
    return document.one("section", id=key)


def test_files_that_are_too_old_are_named_at_their_stream(whole: Node) -> None:
    assert f"{LATE}." in [each.text for each in section(whole, "streams").all("p")]


def test_every_section_is_linked_and_titled(whole: Node) -> None:
    keys = [key for key, _, _ in SECTIONS]
    assert [each.attributes["id"] for each in whole.all("section")] == keys
    links = [each.attributes["href"] for each in whole.one("nav").all("a")]
    assert links == [f"#{key}" for key in keys]
    ids = [each.attributes["id"] for each in whole.all() if "id" in each.attributes]
    assert len(set(ids)) == len(ids) and "content" in ids
    assert whole.one("html").attributes["lang"] == "en" and whole.one("h1").text == "sparkhaven: /db"
    assert whole.one("time").attributes["datetime"] == "2026-09-21T14:13:20Z"
    for key in keys:
        assert section(whole, key).one("h2").attributes["id"] == section(whole, key).attributes["aria-labelledby"]


def test_every_picture_has_a_name_and_its_numbers_as_a_table(whole: Node) -> None:
    figures = list(whole.all("figure"))
    assert len(figures) == 5  # epochs, dates, symbols, disk, quarantine
    for figure in figures:
        table = figure.one("details").one("table")
        assert len(table.rows()) > 1
        for svg in figure.all("svg"):
            assert svg.attributes["role"] == "img" and figure.one("figcaption").text in svg.attributes["aria-label"]
            assert len(list(svg.all("path"))) > 3
        regions = [each for each in figure.all("div") if each.attributes.get("role") == "region"]
        assert all(each.attributes["tabindex"] == "0" and each.attributes["aria-label"] for each in regions)
    classes = [[svg.attributes.get("class") for svg in figure.all("svg")] for figure in figures]
    both = ["wide", "narrow"]  # of pictures without dates below each other
    assert classes == [both, [None], [None], both, both]
    for table in whole.all("table"):
        assert table.one("caption").text
        widths = {len(row) for row in table.rows()}
        assert len(widths) == 1, table.rows()
        heads = [each.attributes["scope"] for each in table.one("thead").all("th")]
        assert set(heads) == {"col"} and {each.attributes["scope"] for each in table.one("tbody").all("th")} == {"row"}


def test_the_tables_say_what_the_facts_say(whole: Node) -> None:
    tables = {each.one("caption").text: each.rows() for each in whole.all("table")}
    dates = tables["tiers and rows of NS.T, 5 dates and 2 sources"]
    assert dates[0] == ["date", "EWR", "JFK"]
    assert [cell.split()[1] for cell in dates[1][1:]] == [TIERS[1], TIERS[2]]
    assert [cell.split()[0] for cell in dates[-1]] == ["2026-09-01", "100", "101"]
    assert tables["30 epochs, 735 rows"][1] == ["2026-09-21 14:13:20", "30", "39", "0", "60", "2.5"]
    findings = section(whole, "next").one("table").rows()
    assert [row[0] for row in findings] == ["state", "wrong", "note"]  # what is well is not said
    assert section(whole, "next").one("code").text == "sparkhaven --root /db merge NS.T --dates 2026-09-01"
    errors = section(whole, "errors").one("table").rows()
    assert [row[2] for row in errors[1:]] == ["damage", "row rejected: overflow"]
    waste = section(whole, "disk").one("table").rows()
    assert waste[1] == ["NS.T storage partition 0", "8.6 MiB", "0 bytes", "0.0 %"]
    rejected = section(whole, "quarantine").one("table").rows()
    assert rejected[2][:4] == ["NS.T s", "overflow", "4", "0"]
    assert rejected[2][4] == "sparkhaven --root /db quarantine list NS.T s --reason overflow"


def test_a_file_has_no_program_and_fetches_nothing(whole: Node) -> None:
    assert not list(whole.all("script"))
    policy = next(each for each in whole.all("meta") if each.attributes.get("http-equiv") == "Content-Security-Policy")
    digest = b64encode(sha256(whole.one("style").text.encode()).digest()).decode()
    assert whole.one("style").text == STYLE
    assert policy.attributes["content"].split("; ")[:2] == ["default-src 'none'", f"style-src 'sha256-{digest}'"]
    assert not {"style", "src", "srcset"} & {name for each in whole.all() for name in each.attributes}
    assert {urlsplit(each.attributes["href"])[:2] for each in whole.all() if "href" in each.attributes} == {
        ("", ""),
        ("data", ""),
    }
    assert "url(" not in STYLE and "@import" not in STYLE


def test_a_served_page_has_one_program_and_no_policy_of_its_own(draw: Drawings) -> None:
    found = parse(page(facts(small_table()), draw, live=True))
    assert found.one("script").text == REFRESH and not [e for e in found.all("meta") if "http-equiv" in e.attributes]
    assert found.one("input", type="checkbox").attributes["checked"] == "checked"
    parts = [each.attributes["data-part"] for each in found.all() if "data-part" in each.attributes]
    assert parts == ["as-of", *(key for key, _, _ in SECTIONS)]


def hostile() -> PageFacts:
    """Every text of the facts is hostile."""
    table = PageTable(
        "".join(HOSTILE),
        tuple(stream(bad, 1, 0, bad, epochs(3)) for bad in HOSTILE),
        {bad: PageWaiting(bad, (bad,)) for bad in HOSTILE},
        tuple(Cell(date, source, 5, "merged") for date in HOSTILE for source in HOSTILE),
        tuple(SymbolSizes(bad, ((bad, 2000, 5000), ("2026-09-01", 9000, 10_000))) for bad in HOSTILE),
        {bad: VolumeUse(10, 5) for bad in HOSTILE},
        3,
        {bad: PendingRows(bad, {bad: 3}, bad) for bad in HOSTILE},
        tuple(ErrorFacts(10**18, bad, bad) for bad in HOSTILE),
    )
    found = tuple(DoctorFinding(bad, "wrong", bad, bad) for bad in HOSTILE)
    return facts(table, findings=found, others=HOSTILE, root=HOSTILE[0], command=HOSTILE[1])


@pytest.mark.slow
def test_names_of_the_tree_cannot_become_markup(draw: Drawings) -> None:
    found = made(draw, hostile())
    assert {each.tag for each in found.all()} <= TAGS
    assert found.one("style").text == STYLE
    names = {name for each in found.all() for name in each.attributes}
    assert not [name for name in names if name.startswith("on") or "'" in name or name == "xlink:href"]
    assert {each.attributes["href"][:1] for each in found.all("a")} == {"#"}
    texts = section(found, "errors").one("table").rows()
    assert {row[2] for row in texts[1:]} >= set(HOSTILE[:6])  # they are shown as they are
    assert not [c for c in found.text if not c.isprintable() and c != "\n"]
    for svg in found.all("svg"):
        assert {each.tag for each in svg.all()} <= {"g", "path", "text", "line", "rect"}


def test_of_a_drawing_only_shapes_and_texts_are_taken() -> None:
    drawn = """
      <svg xmlns="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xlink" onload="alert(1)" width="9">
      <script>alert(2)</script><style>* { fill: url(//evil.example) }</style><image x:href="//evil.example/x"/>
      <a x:href="javascript:alert(3)"><path d="M1"/></a><foreignObject><path d="M2"/></foreignObject>
      <g id="i" class="c" style="fill: red" transform="t"><path d="M3" onclick="alert(4)" fill="var(--rows)"/></g>
      </svg>"""
    figure = parse(written(picture("rows", drawn, table("rows", ["a"], [["b"]])))).one("svg")
    assert set(figure.attributes) == {"width", "role", "aria-label"}
    assert [(each.tag, each.attributes) for each in figure.all()] == [
        ("g", {"transform": "t"}),
        ("path", {"d": "M3", "fill": "var(--rows)"}),
    ]
    assert "alert" not in figure.text


@pytest.mark.slow
def test_three_thousand_dates_of_fifty_sources_stay_small(draw: Drawings) -> None:
    dates = [f"{2010 + n // 365}-{n % 365:03}" for n in range(3000)]
    cells = tuple(Cell(date, f"s{n:02}", 7, "truncated") for date in dates for n in range(50))
    symbols = tuple(SymbolSizes(f"C{c}", tuple((date, 5, 10) for date in dates)) for c in range(30))
    table = small_table(
        cells=cells, symbols=symbols, streams=(stream("s", 1, 0, "fsync", epochs(20_000, every_ms=3000)),)
    )
    data = page(facts(table), draw)
    assert len(data) < 1_000_000
    found = parse(data)
    rows = next(
        each for each in found.all("table") if each.one("caption").text.startswith("tiers, and rows per date, of")
    ).rows()
    assert len(rows) == 61 and len(rows[0]) == 21 and rows[0][-1] == "31 other sources"
    assert {row[-1] for row in rows[1:]} == {f"{7 * 31} truncated"}  # of a run of dates the mean of each
    assert {cell for row in rows[1:] for cell in row[1:-1]} == {"7 truncated"}
    assert rows[1][0] == dates[-1] and rows[-1][0].startswith(f"{dates[0]} to ")
    epochs_ = next(each for each in found.all("table") if "epochs, " in each.one("caption").text).rows()
    assert len(epochs_) < 110


def test_many_tables_are_named_and_no_table_is_no_mistake(draw: Drawings) -> None:
    nothing = made(draw, facts(findings=()))
    assert not list(nothing.all("figure"))
    for key, _, _ in SECTIONS:
        assert section(nothing, key).text
    assert "0 tables" in nothing.one("header").text
    empty = made(draw, facts(PageTable("NS.Empty", (stream("s", 0, 0, "fsync"),))))
    assert "No epoch in the last 24 hours: the log keeps none." in section(empty, "streams").text
    others = made(draw, facts(small_table(), others=("A.B", "C.D")))
    assert "sparkhaven --root /db page A.B C.D" in others.one("header").one("code").text


@pytest.mark.slow
def test_the_same_facts_give_the_same_bytes(draw: Drawings) -> None:
    assert page(facts(small_table()), Drawings()) == page(facts(small_table()), draw)


@pytest.mark.slow
def test_a_picture_that_has_not_changed_is_not_drawn_again() -> None:
    drawn: list[object] = []
    real = Drawings()

    def counted(spec: dict[str, object]) -> str:
        drawn.append(spec)
        return real(spec)

    keeping = Drawings(counted)
    page(facts(small_table()), keeping)
    assert len(drawn) == 8  # five pictures, three of them in two widths
    page(facts(small_table(), now_ms=facts().now_ms + 1), keeping)
    assert len(drawn) == 8
    page(facts(small_table(), now_ms=facts().now_ms + 3_600_000), keeping)
    assert len(drawn) == 8  # the axis is that of the epochs, not of the present
    page(facts(small_table(volumes={"intraday": VolumeUse(1, 0)})), keeping)
    assert len(drawn) == 10


def shades(dark: bool) -> dict[str, str]:
    light, _, rest = STYLE.partition("@media (prefers-color-scheme: dark)")
    known = dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6})", light))
    return known | dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6})", rest)) if dark else known


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_and_marks_are_legible(dark: bool) -> None:
    """The contrasts that WCAG 2.2 asks for: 4.5 for texts, 3 for what a picture is read by."""
    found = shades(dark)
    for name in ("text", "soft", "link", "wrong", "note"):
        assert contrast(found[name], found["back"]) >= 4.5, name
    for tier in TIERS:
        assert contrast(found["letter"], found[tier]) >= 4.5, tier
    for name in (
        "rows",
        "seconds",
        "lag",
        "used",
        "waste",
        "pending",
        "line0",
        "line1",
        "line2",
        "line3",
        "line4",
        "line5",
    ):
        assert contrast(found[name], found["back"]) >= 3, name
