"""Messages of commit logs: epochs, withdrawals, streams, recovery."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from sparkhaven.store.delta.log import version_file
from sparkhaven.store.epochs.files.lock import take_lock
from sparkhaven.store.io.fs import Fs
from tests.support.commands import run
from tests.support.hints.story import ADD, DATES, MERGED, REMOVED, SAME, TRUNCATE, TRUNCATED, VALID, Story, Words
from tests.support.ingest.delta.tables import unpack
from tests.support.streams.dated_site import OLD, Dated
from tests.support.streams.schema_site import TABLE

STREAM = (TABLE, "s")
TIME = datetime.now(UTC).isoformat()


def put_back(site: Dated) -> Words:
    """A Delta feed of three versions, of which a backup has two."""
    table, file = unpack(site.base, until=2), site.base / "lake.toml"
    text = (site.base / "s.toml").read_text().replace('name = "s"', 'name = "lake"')
    head, _, tail = text.partition("[feed]")
    feed = f'[feed]\ntype = "delta"\npath = "{table}"\nmissing_columns = "null"\n[columns]\nA = {{ from = "id" }}\n'
    file.write_text(head + feed + "[partition]" + tail.partition("[partition]")[2].replace('"s"', '"lake"'))
    site.ingest(name="lake")
    version_file(table, 2).unlink()
    return "ingest", str(file), "--once", "--local"


def location(site: Dated) -> Path:
    return site.root / "Intraday" / "Test" / "Event" / "s" / OLD / "Event"


def column(site: Dated) -> Path:
    return location(site) / "A.dat"


def two_files(site: Dated) -> Words:
    for number in (7, 8):
        site.put({"A": number, "B": "x", "C": 0.5})
    site.ingest()
    return "epochs", "undo", *STREAM, "--source-file", f"{site.numbers:03}.json"


def later(site: Dated) -> None:
    site.late(5, OLD)


def lost_column(site: Dated) -> Words:
    column(site).unlink()
    return "recover", *STREAM


def lost_before(site: Dated) -> Words:
    later(site)
    column(site).unlink()
    return "epochs", "rollback", *STREAM, "--to", "1"


def withdrawn(site: Dated) -> Words:
    later(site)
    site.do("delete-rows", TABLE, "--where", "A = 5")
    for words in MERGED:
        site.do(*words)
    return "epochs", "rollback", *STREAM, "--to", "2"


def truncated_epoch(site: Dated) -> Words:
    return "epochs", "undo", *STREAM, "--epoch", "1"


def streams_then(site: Dated, make: Callable[[], object], *names: str) -> None:
    """Something is committed, and the stream's files of these names, or all, are as before again."""
    kept = {path.name: path.read_bytes() for path in site.place.streams.iterdir() if path.is_file()}
    make()
    for path in site.place.streams.iterdir():
        if path.name.startswith("s.") and path.is_file() and (not names or path.name in names):
            path.unlink()
    for name, data in kept.items():
        if name.startswith("s.") and (not names or name in names):
            (site.place.streams / name).write_bytes(data)


def older_log(site: Dated) -> Words:
    streams_then(site, lambda: later(site))
    return "recover", *STREAM


def older_than_a_removal(site: Dated) -> Words:
    later(site)
    streams_then(site, lambda: [site.do(*words) for words in REMOVED])
    return "recover", *STREAM


def older_removals(site: Dated) -> Words:
    for words in VALID:
        site.do(*words)
    site.do("recover")
    streams_then(site, lambda: site.do(*TRUNCATE), "s.removals", ".s.head")
    return "recover", *STREAM


def rebuilt(site: Dated) -> None:
    older_log(site)
    site.do("recover", *STREAM, "--from-locations")


def without_positions(site: Dated) -> Words:
    rebuilt(site)
    return "ingest", str(site.base / "s.toml"), "--once", "--local"


def stats_without_positions(site: Dated) -> Words:
    rebuilt(site)
    return "stats", TABLE


def before_all(site: Dated) -> Words:
    rebuilt(site)
    return "read", TABLE, "--as-of", "2020-01-01T00:00:00Z"


def damaged_note(site: Dated) -> Words:
    site.do("streams", "remove", *STREAM)
    (note,) = site.place.streams.glob("s.removed")
    note.write_bytes(note.read_bytes()[:20])
    return "recover", TABLE


def running(site: Dated, *words: str) -> Words | str:
    """What a command says while a process writes the stream."""
    with take_lock(Fs(), site.place.of_stream("s").stream_lock):
        return run(site.root, *words).output.replace(f"--root {site.root} ", "")


def unborn(site: Dated) -> Words:
    (site.place.streams / "new.lock").touch()
    return "verify", TABLE


def stranger(site: Dated) -> Words:
    (site.place.streams / "s.notes").write_text("x")
    return "verify", TABLE


def torn(site: Dated) -> Words:
    with site.place.of_stream("s").stream_log.open("ab") as log:
        log.write(b"torn")
    return "verify", TABLE


def no_stream_has(site: Dated) -> Words:
    shutil.copytree(site.root / "Intraday/Test/Event/s", site.root / "Intraday/Test/Event/u")
    for path in (site.root / "Intraday/Test/Event/u").rglob("table.size"):
        path.unlink()
    return "verify", TABLE


def dropped_soon(site: Dated) -> Words:
    site.do("drop", TABLE, "--yes")
    return "ingest", str(site.base / "s.toml"), "--once", "--local"


STORIES = {
    "a time before all epochs": Story("lists the retained epochs with their times", before_all),
    "a stream with truncated rows": Story("`sparkhaven delete 7 7`", ("streams", "remove", *STREAM), TRUNCATED),
    "a table without streams": Story("`sparkhaven tables` lists the tables", ("recover", "No.Table")),
    "no such stream": Story("`sparkhaven stats` lists the streams", ("quarantine", "list", TABLE, "nobody")),
    "a stream that is none": Story(
        "`sparkhaven stats` lists the streams of a table", ("streams", "remove", TABLE, "nobody")
    ),
    "show of no epoch": Story("`sparkhaven epochs list 7 7`", ("epochs", "show", *STREAM, "--epoch", "99")),
    "undo of no epoch": Story(
        "`sparkhaven epochs list 7 7` shows the kept ones", ("epochs", "undo", *STREAM, "--epoch", "99")
    ),
    "undo of nothing": Story("shows the epochs with their offsets", ("epochs", "undo", *STREAM)),
    "undo of one file of two": Story("to undo all of it: ", two_files),
    "undo of a withdrawal": Story(
        "`sparkhaven epochs rollback 7 7 --to 7` goes back before it",
        ("epochs", "undo", *STREAM, "--epoch", "2"),
        (("epochs", "undo", *STREAM, "--epoch", "1"),),
    ),
    "rollback to no epoch": Story(
        "`sparkhaven epochs list 7 7` shows the kept ones", ("epochs", "rollback", *STREAM, "--to", "99")
    ),
    "rollback below a merge": Story(
        "roll back to the merged epoch or a later one", ("epochs", "rollback", *STREAM, "--to", "0"), MERGED
    ),
    "rollback below a withdrawal": Story("roll back to the epoch that withdrew them", withdrawn),
    "rollback to a damaged location": Story("roll back further, restore the file", lost_before, again=SAME),
    "a Delta table that was put back": Story(
        "Go back by `sparkhaven epochs rollback 7 7 --to N` to one", put_back, again=SAME
    ),
    "a lost column": Story("or roll back to an epoch before it, or set the location aside", lost_column, again=SAME),
    "no such location": Story(
        "`sparkhaven epochs show 7 7` lists them", ("recover", *STREAM, "--quarantine", "s/2030-01-01")
    ),
    "a stream with rows": Story("then validate, truncate and delete", ("streams", "remove", *STREAM), VALID),
    "a rebuild of a sound log": Story(
        "After a crash run `sparkhaven recover`", ("recover", *STREAM, "--from-locations")
    ),
    "undo of rows that have left": Story(
        "rows of history are deleted by a condition", truncated_epoch, TRUNCATED, fills={"CONDITION": "A = 1"}
    ),
    "undo of merged rows": Story(
        "rows of history are deleted by a condition", truncated_epoch, MERGED, fills={"CONDITION": "A = 1"}
    ),
    "a log that is older than its locations": Story("rebuilds the log", older_log, again=SAME),
    "a log that is older than a removal": Story("rebuilds the log", older_than_a_removal, again=SAME),
    "removals that are older than a truncate": Story("rebuilds the log", older_removals, again=SAME),
    "a rebuilt log without positions": Story("state them: ", without_positions, again=SAME, fills={"TIME": TIME}),
    "stats of a log without positions": Story("state them: ", stats_without_positions, fills={"TIME": TIME}),
    "a damaged note of a removed stream": Story(
        "`, then `sparkhaven streams remove 7 7`", damaged_note, REMOVED, again=SAME
    ),
    "removal of a running stream": Story(
        "stop that process, then `sparkhaven streams remove",
        lambda site: running(site, "streams", "remove", *STREAM),
        REMOVED,
    ),
    "a drop of a table that is written": Story(
        "stop that process, then `sparkhaven drop", lambda site: running(site, "drop", TABLE, "--yes")
    ),
    "a start that was killed before its first epoch": Story("`sparkhaven streams remove 7 7` removes it", unborn),
    "a file of no stream": Story("shows it. Then remove it", stranger),
    "a torn record": Story("run `sparkhaven recover`", torn, again=SAME),
    "a directory of no stream": Story("after an interrupted batch run", no_stream_has, again=SAME),
    "withdrawn rows": Story(
        "writes the date without them", ("verify", TABLE), (ADD, ("delete-rows", TABLE, "--where", "A = 1"))
    ),
    "a table that is being dropped": Story("removes them now, if no reader needs them", dropped_soon, again=SAME),
    "a drop that waits": Story("`sparkhaven drop 7 --yes` removes the files", ("drop", TABLE, "--yes")),
    "a table that was dropped": Story("removes what is left. A snapshot", ("read", TABLE), (("drop", TABLE, "--yes"),)),
    "a table without a schema": Story(
        "start a stream of the table, or check the root", ("truncate", "No.Table", *DATES)
    ),
}
