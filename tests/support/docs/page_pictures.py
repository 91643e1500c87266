"""``python -m tests.support.docs.page_pictures``: the pictures of docs/howto/page.md, of a page of real flights.

January 2013 from the demo's data, committed over the last hours, then merged by the real commands, without Spark.
Needs Chromium.
"""

from __future__ import annotations

import os
import socket
import tempfile
import time
from itertools import groupby, takewhile
from pathlib import Path

from demo.feed import TABLE, rows
from sparkhaven.jobs.monitor.page.collect import FactCollector, PageScope
from sparkhaven.jobs.monitor.page.document import page
from sparkhaven.jobs.monitor.page.pictures import Drawings
from sparkhaven.store.epochs.state.log_values import Batch, FileId, LocationReport
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from tests.support.browser import browsing
from tests.support.commands import run
from tests.support.places import REPOSITORY
from tests.support.tables.flight_table import SCHEMA, column_values, day_of
from tests.support.tables.small_tables import SmallTable

STREAM = "flights"
FOLDER = REPOSITORY / "docs" / "howto"
PICTURES = (("page.png", "light", "next"), ("page-dark.png", "dark", "dates"))
WIDTH, HEIGHT = 1180, 1000
MOST_BYTES = 300_000
DATES, HOURS, HOST = 31, 6, socket.gethostname()  # as in the locks of the streams


def write_january(root: Path, until_s: float) -> None:
    """One epoch a date, every few minutes until a time, each of a file that is some seconds old."""
    pauses = [420 + 97 * (number * number % 7) for number in range(DATES)]
    table = SmallTable(root, SCHEMA.read_text(encoding="utf-8"))
    table.now = until_s - sum(pauses)
    january = takewhile(lambda row: row["month"] == "1", rows())
    for number, (day, of_day) in enumerate(groupby(january, day_of)):
        flights = list(of_day)
        table.now += pauses[number]
        reports: list[LocationReport] = []
        for origin in ("EWR", "JFK", "LGA"):
            mine = [row for row in flights if row["origin"] == origin]
            columns = {column.name: column_values(column, mine) for column in table.schema.stored}
            reports.append(table.append(origin, day, columns, stream=STREAM))
        file = FileId(f"/data/flights-{day}.json", 1, int((table.now - 20 - number * number % 23) * 1e9))
        counts = {"rejected": 3, "rejected.overflow": 3} if number == 20 else {}
        batch = Batch("q", number + 1, (file,), reports, table.schema.version, len(flights), counts)
        table.log(STREAM).commit(batch)
        table.log(STREAM).publish()
    table.log(STREAM).close()


def merge_some(root: Path) -> None:
    """The first 20 dates merged, 14 of them validated, and 7 of those truncated."""
    for name in ("0", "1"):
        _do(root, "partitions", "add", "Nyc13", name)
    _do(root, "merge", TABLE, "--dates", "2013-01-01..2013-01-20", "--local")
    _do(root, "validate", TABLE, "--dates", "2013-01-01..2013-01-14")
    _do(root, "truncate", TABLE, "--dates", "2013-01-01..2013-01-07")


def _do(root: Path, *words: str) -> None:
    found = run(root, *words)
    if found.exit_code:
        raise SystemExit(f"{' '.join(words)}: exit {found.exit_code}\n{found.stderr}")


def main() -> None:
    """Makes the root, the page, and its pictures."""
    with tempfile.TemporaryDirectory(prefix="sparkhaven-") as base:
        root, file = Path(base) / "demo-db", Path(base) / "page.html"
        write_january(root, time.time() - 200)
        merge_some(root)
        collector = FactCollector(Fs(), Layout(root), PageScope(hours=HOURS), time.time, HOST, os.environ)
        file.write_bytes(page(collector.collect(), Drawings()))
        with browsing() as browser:
            for name, scheme, section in PICTURES:
                browser.colours(scheme)
                browser.size(WIDTH, HEIGHT)
                browser.open(file.as_uri())
                browser.run(f"scrollTo(0, {section!r} == 'next' ? 0 : document.getElementById({section!r}).offsetTop)")
                data = browser.picture()
                if len(data) > MOST_BYTES:
                    raise SystemExit(f"{name} has {len(data):,} bytes, expected at most {MOST_BYTES:,}")
                (FOLDER / name).write_bytes(data)
                print(f"{FOLDER / name}: {len(data):,} bytes")


if __name__ == "__main__":
    main()
