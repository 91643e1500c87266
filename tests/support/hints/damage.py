"""Messages of damage: what readers and checks say of a file that is lost, cut, changed or left over."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from sparkhaven.store.format.column.prefix import encode_prefix
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.writers.merge.publish.publish_phase import clean_after
from tests.support.commands import run
from tests.support.disks.contents import flip
from tests.support.hints.story import (
    ADD,
    DATES,
    DELETE,
    MERGE,
    MERGED,
    REMOVED,
    SAME,
    TRUNCATED,
    VALIDATE,
    Story,
    Words,
    do,
)
from tests.support.streams.dated_site import OLD, Dated
from tests.support.streams.schema_site import COLUMNS, TABLE, schema

REWRITE: Words = ("rewrite-column", TABLE, *DATES, "--set", "C=C+1", "--local")
BACK = {"NAME": "s", "N": "0"}
READ, VERIFY, DEEP = ("read", TABLE), ("verify", TABLE), ("verify", TABLE, "--deep")
INTRADAY, HISTORY = f"Intraday/Test/Event/s/{OLD}/Event", f"Systems/Test/Partitions/0/{OLD}/Event"
Change = Callable[[Path], object]


def last_byte(path: Path) -> None:
    flip(path, -1)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4])


def stray(path: Path) -> None:
    path.write_bytes(b"x")


def damaged(name: str, change: Change, told: Words) -> Callable[[Dated], Words]:
    """A file of the root is changed; ``told`` is the command that says so."""

    def make(site: Dated) -> Words:
        change(site.root / name)
        return told

    return make


def moved(site: Dated) -> Words:
    there = site.root / "Systems/Test/Partitions"
    (there / "1").mkdir()
    (there / "0" / OLD).rename(there / "1" / OLD)
    return VERIFY


def moved_aside(site: Dated) -> Words:
    """What a delete that was killed has moved away."""
    location = site.root / INTRADAY
    shutil.copytree(location, location.with_name(".doomed-Event-1"))
    return VERIFY


def removed(name: str) -> Callable[[Dated], None]:
    return lambda site: (site.root / name).unlink()


def invalid(site: Dated) -> Words:
    """A rule that fails, so that a truncate is refused."""
    rule = '  <Validator><assertSize min="100" max="200"/></Validator>\n'
    site.write(schema(COLUMNS, rule))
    do(site, "schema", "deploy", str(site.file))
    return "truncate", TABLE, *DATES


def later_epoch(site: Dated) -> Words:
    """An epoch between two merges, whose rows have left."""
    for number in (5, 6):
        site.late(number, OLD)
    for words in (MERGE, VALIDATE, ("truncate", TABLE, *DATES), DELETE):
        do(site, *words)
    return "read", TABLE, "--epoch", "s=2"


def without_rule(site: Dated) -> None:
    site.write(schema())
    do(site, "schema", "deploy", str(site.file))


def failing(name: str, part: str, number: int) -> AbstractContextManager[object]:
    """A call of the file system that fails for paths with this part."""
    plain = getattr(Fs, name)

    def fail(fs: Fs, path: Path, *more: object, **named: object) -> object:
        if part in str(path) and path.exists():
            raise OSError(number, os.strerror(number), str(path))
        return plain(fs, path, *more, **named)

    return patch.object(Fs, name, fail)


def stuck(site: Dated, part: str, *words: str) -> str:
    """What a command says that may not remove these trees."""
    with failing("remove_tree", part, errno.EACCES):
        return run(site.root, *words).output.replace(f"--root {site.root} ", "")


def full(site: Dated, *words: str) -> str:
    """What a command says on a disk that is full once the log is written."""
    with failing("replace", "table.size", errno.ENOSPC):
        return run(site.root, *words).output.replace(f"--root {site.root} ", "")


def replaced_long_ago(site: Dated) -> str:
    do(site, *MERGE, "--rewrite")
    said: list[str] = []
    with failing("remove_tree", ".retired-", errno.EACCES):
        clean_after(site.place, lambda: time.time() + 7200, said.append)
    return "\n".join(said)


def cut_history(site: Dated) -> Words:
    cut(site.root / HISTORY / "A.dat")
    return "snapshot", TABLE, "--out", str(site.base / "snap")


def other_column(site: Dated) -> Words:
    there = site.root / INTRADAY
    (there / "A.dat").write_bytes((there / "C.dat").read_bytes())
    site.write(schema({**COLUMNS, "D": "long"}))
    site.put({"A": 5, "B": "x", "C": 0.5})
    return "ingest", str(site.base / "s.toml"), "--once", "--local"


def of_another_type(site: Dated) -> Words:
    file, deployed = site.root / INTRADAY / "A.dat", load_deployed(site.place)
    one, other = deployed.column("A"), deployed.column("C")
    assert one is not None and other is not None
    prefix = encode_prefix(replace(other, id=one.id, name=one.name))
    file.write_bytes(prefix + file.read_bytes()[len(prefix) :])
    return READ


def loose(site: Dated) -> Words:
    """A file that is in no tree."""
    file = site.base / "table.size"
    file.write_bytes((site.root / INTRADAY / "table.size").read_bytes()[:-9])
    return "inspect", str(file)


def alone(site: Dated) -> Words:
    """A column file without its record."""
    file = site.base / "A.dat"
    file.write_bytes((site.root / INTRADAY / "A.dat").read_bytes())
    return "inspect", str(file)


def replaced(site: Dated) -> Words:
    (site.root / "Systems/Test/Partitions/1").mkdir()
    do(site, "dates", "move", TABLE, *DATES, "--to", "1")
    return VERIFY


def of_other_rows(site: Dated) -> Words:
    other = site.base / "other"
    shutil.copytree(site.root, other)
    site.late(3, OLD)
    return "compare", str(other), TABLE, "--json"


def page(site: Dated) -> str:
    file = site.base / "page.html"
    do(site, "page", "--out", str(file))
    start = file.read_text().index("Findings of `sparkhaven")
    return file.read_text()[start : start + 60]


GO_BACK = "or go back to an epoch before the damage"
AGAIN = "sparkhaven merge 7 --dates 7 --rewrite"
STORIES: dict[str, Story] = {
    "a column of intraday that is lost": Story(
        GO_BACK, damaged(f"{INTRADAY}/A.dat", Path.unlink, READ), again=READ, fills=BACK
    ),
    "a column of intraday that is cut": Story(GO_BACK, damaged(f"{INTRADAY}/A.dat", cut, READ), again=READ, fills=BACK),
    "a column of intraday that changed": Story(
        GO_BACK, damaged(f"{INTRADAY}/A.dat", last_byte, READ), again=READ, fills=BACK
    ),
    "a source of a merge that changed": Story(
        GO_BACK, damaged(f"{INTRADAY}/A.dat", last_byte, MERGE), (ADD,), fills=BACK
    ),
    "a column of history that is lost": Story(
        AGAIN, damaged(f"{HISTORY}/A.dat", Path.unlink, READ), MERGED, again=READ
    ),
    "a column of history that changed": Story(AGAIN, damaged(f"{HISTORY}/A.dat", last_byte, READ), MERGED, again=READ),
    "a definition that changed": Story(
        "run `sparkhaven recover`, which writes it again from the schema",
        damaged(f"{INTRADAY}/table.tbl", last_byte, VERIFY),
        by_hand=removed(f"{INTRADAY}/table.tbl"),
        again=SAME,
    ),
    "a record that changed": Story(
        "run `sparkhaven recover`", damaged(f"{INTRADAY}/table.size", last_byte, VERIFY), again=SAME
    ),
    "a location index that changed": Story(
        "writes the index again",
        damaged("Systems/Test/MetadataIndex/Event.tlmi", last_byte, VERIFY),
        MERGED,
        again=SAME,
    ),
    "a location index that is cut": Story(
        "writes the index again", damaged("Systems/Test/MetadataIndex/Event.tlmi", cut, VERIFY), MERGED, again=SAME
    ),
    "a merge record that changed": Story(
        "No other file has its content",
        damaged(f"Systems/Test/MetadataIndex/.Event.merges/{OLD}/1.json", last_byte, READ),
        MERGED,
    ),
    "a column of another type": Story("Deploy the schema that wrote these files", of_another_type),
    "a loose file that is cut": Story("lists all that is damaged", loose),
    "a file beside history": Story("shows it. Then remove it", damaged(f"{HISTORY}/Z.dat", stray, VERIFY), MERGED),
    "history that was moved": Story("writes a merge record for it", moved, MERGED, again=SAME),
    "rows that a delete has moved away": Story("`sparkhaven delete 7 --dates 7` removes it", moved_aside, TRUNCATED),
    "a validation that failed": Story(
        "sparkhaven validate 7 --dates 7", invalid, MERGED, by_hand=without_rule, again=SAME
    ),
    "a merge that cannot remove files": Story(
        "No row is affected. End the cause", lambda site: stuck(site, ".stage-", *MERGE), (ADD,), again=MERGE
    ),
    "a rewrite that cannot remove files": Story(
        "files of an earlier generation could not be removed", lambda site: stuck(site, ".stage-", *REWRITE), MERGED
    ),
    "a clean that cannot remove files": Story("`sparkhaven clean 7` removes them", replaced_long_ago, MERGED),
    "a delete that cannot move files": Story(
        "sparkhaven delete 7 --dates 7", lambda site: stuck(site, ".doomed-", *DELETE), TRUNCATED, again=DELETE
    ),
    "a drop that cannot remove files": Story(
        "`sparkhaven drop 7 --yes` removes the rest",
        lambda site: stuck(site, "", "drop", TABLE, "--yes", "--grace", "0"),
    ),
    "an undo whose files could not follow": Story(
        "Files for other programs could not be written",
        lambda site: full(site, "epochs", "undo", TABLE, "s", "--epoch", "1"),
    ),
    "a file of another column": Story("Write it to a new date, see E161", other_column),
    "a copy that cannot be read": Story("names what the origin lacks", cut_history, REMOVED),
    "a column file without its record": Story("compares the file with the commit log", alone),
    "a location that a move has replaced": Story("`sparkhaven clean 7` removes it in time", replaced, REMOVED),
    "two roots of other rows": Story("says which root is sound", of_other_rows),
    "findings of the page": Story("Findings of `sparkhaven doctor`", page),
    "an epoch whose rows have left": Story("read a newer epoch", later_epoch, MERGED),
}
