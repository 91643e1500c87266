"""What a page shows of many epochs, dates, sources and columns: bounded, and nothing left out of the sums."""

from __future__ import annotations

import itertools

import pytest

from sparkhaven.jobs.monitor.dates import Cell
from sparkhaven.jobs.monitor.page import summary
from sparkhaven.jobs.monitor.page.summary import ErrorFacts
from sparkhaven.jobs.monitor.symbols import SymbolSizes
from tests.support.page_facts import MINUTE, NOW_MS, epoch, epochs, facts


@pytest.mark.parametrize("count", [0, 1, 200, 201, 5000])
def test_points_have_every_row_of_the_window_once(count: int) -> None:
    start, stop = summary.window(facts())
    made = epochs(count, every_ms=20 * 3600_000 // max(1, count))
    found = summary.points(made, start, stop)
    assert sum(one.rows for one in found) == sum(one.rows for one in made)
    assert sum(one.epochs for one in found) == count and len(found) <= max(200, 96)
    assert [one.first for one in found[:1]] == [one.epoch for one in made[:1]]
    assert all(one.start_ms <= one.stop_ms for one in found)
    assert all(before.last + 1 == after.first for before, after in itertools.pairwise(found))


def test_the_window_ends_with_the_present_and_leaves_out_what_was_rolled_back() -> None:
    start, stop = summary.window(facts(hours=1.0))
    assert stop - start == 3_600_000 and start < NOW_MS < stop <= NOW_MS + 3_600_000 // 96
    now = epoch(1, NOW_MS, 5)
    old = epoch(2, start - 1, 6)
    dead = epoch(3, NOW_MS, 7, live=False, rejected={"late": 2})
    back = epoch(4, NOW_MS, 0, kind="rollback")
    assert [one.rows for one in summary.points([old, now, dead, back], start, stop)] == [5]
    bad = epoch(5, NOW_MS, 0, rejected={"late": 1, "overflow": 3})
    assert summary.rejected([dead, bad, bad], start, stop) == {"late": 2, "overflow": 6}


def test_few_dates_stand_by_themselves_and_of_many_the_newest() -> None:
    dates = [f"{n:04}" for n in range(1000)]
    assert [span.count for span in summary.spans(dates[:60])] == [1] * 60
    found = summary.spans(dates)
    assert len(found) <= 60 and sum(span.count for span in found) == 1000
    assert [span.label for span in found[-30:]] == dates[-30:]
    assert (found[0].first, found[0].label) == ("0000", f"0000 +{found[0].count - 1}")


def test_the_axis_spans_the_epochs_that_there_are() -> None:
    start, stop = summary.window(facts())
    made = epochs(30)
    first, last = made[0].time_ms, made[-1].time_ms
    room = (last - first) // 40
    assert summary.extent(made, start, stop) == (first - room, last + room)
    assert summary.extent([], start, stop) == (start, stop)
    assert summary.extent(epochs(1), start, stop) == (NOW_MS - 5000, NOW_MS + 5000)
    rolled_back = epoch(99, start + 1, 1, live=False)
    older = epoch(98, start - 1, 1)
    assert summary.extent([older, rolled_back, *made], start, stop) == (first - room, last + room)
    at_both_ends = [epoch(1, start, 1), epoch(2, stop - 1, 1)]
    assert summary.extent(at_both_ends, start, stop) == (start, stop)


@pytest.mark.parametrize("count", [1, 2, 200, 201, 5000])
def test_epochs_fill_the_axis(count: int) -> None:
    """Of a burst of ten minutes within the day that is asked for, no part is one bar."""
    made = epochs(count, every_ms=600_000 // count, until_ms=NOW_MS - 3_600_000)
    start, stop = summary.extent(made, *summary.window(facts()))
    found = summary.points(made, start, stop)
    assert sum(one.rows for one in found) == sum(one.rows for one in made)
    assert stop - start < 700_000 and len(found) >= min(count, 90)


def test_a_run_of_dates_has_the_mean_of_its_dates() -> None:
    cells = [Cell(f"{n:04}", source, 10, "merged") for n in range(1000) for source in "ab"]
    cells.append(Cell("0999", "c", 3, "merged"))
    cells.append(Cell("0000", "d", 3, "merged"))
    found = summary.heat(cells)
    assert found.has_runs
    rows = {
        (found.spans[span].count > 1, found.sources[source]): rows for (span, source), (rows, _) in found.cells.items()
    }
    assert rows == {(many, source): 10 for many in (True, False) for source in "ab"} | {(False, "c"): 3, (True, "d"): 1}
    assert not summary.heat(cells[:100]).has_runs


def test_a_run_of_dates_has_the_tier_of_the_least_advanced_one() -> None:
    cells = [Cell(f"{n:04}", "a", 1, "truncated") for n in range(100)]
    cells[3] = Cell("0003", "a", 1, "merged")
    found = summary.heat(cells)
    assert found.cells[0, 0][1] == "truncated" or found.spans[0].last >= "0003"
    place = next(n for n, span in enumerate(found.spans) if span.first <= "0003" <= span.last)
    assert found.cells[place, 0] == (1, "merged")
    assert {tier for at, (_, tier) in found.cells.items() if at[0] != place} == {"truncated"}


def test_sources_beyond_the_largest_share_a_line() -> None:
    cells = [Cell("d", f"s{n:02}", n + 1, "intraday") for n in range(21)]
    found = summary.heat(cells)
    assert len(found.sources) == 20 and found.sources[-1] == "2 other sources"
    assert found.cells[0, 19] == (1 + 2, "intraday")
    assert len(summary.heat(cells[:20]).sources) == 20


@pytest.mark.parametrize("values", [[], [5], [5, 5, 5], [1, 2], list(range(1, 1000)), [1] * 50 + [10**9]])
def test_bands_hold_every_value_once(values: list[int]) -> None:
    found = summary.bands(values)
    assert len(found) <= 5 and all(low <= high for low, high in found)
    for value in values:
        assert sum(low <= value <= high for low, high in found) == 1


def test_growth_is_per_date() -> None:
    lines = [SymbolSizes(f"C{n}", (("a", 10 * n, 100), ("b", 30, 100))) for n in range(10)]
    found, shown = summary.growth(lines)
    assert [span.first for span in found] == ["a", "b"]
    assert [one.column for one in shown] == [f"C{n}" for n in range(4, 10)] and shown[0].entries == (40, 30)
    many = SymbolSizes("C", tuple((f"{n:04}", 4 if n % 2 else 6, 9) for n in range(3000)))
    assert {round(entries or 0) for entries in summary.growth([many])[1][0].entries[:-30]} == {5}


@pytest.mark.parametrize(
    ("dates", "said"),
    [
        ((("a", 10, 20),), "too few rows"),
        ((("a", 900, 1000), ("b", 900, 1000)), 'symbolTable="None"'),
        ((("a", 10, 5000), ("b", 100, 5000)), "grew from 10 to 100"),
        ((("a", 10, 5000), ("b", 12, 5000)), "none: a text occurs 455 times"),
    ],
)
def test_advice_for_symbol_tables(dates: tuple[tuple[str, int, int], ...], said: str) -> None:
    assert said in SymbolSizes("Sym", dates).advice


def test_the_newest_errors_come_after_those_without_a_time() -> None:
    made = [ErrorFacts(NOW_MS + n * MINUTE, "w", str(n)) for n in range(200)]
    found = summary.newest([*made, ErrorFacts(None, "w", "always")])
    assert [one.what for one in found[:3]] == ["always", "199", "198"] and len(found) == 100
