"""What a message tells a person to run is run: the state is mended, or another step is told."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven import save_table
from sparkhaven.store.delta.log import version_file
from tests.support.commands import run
from tests.support.docs.hints import FILLED, calls, messages
from tests.support.ingest.delta.tables import unpack
from tests.support.streams.dated_site import OLD, Dated
from tests.support.streams.schema_site import COLUMNS, TABLE, schema

pytestmark = pytest.mark.slow
UNTRIED = 132  # messages with a command that no story below meets: more of them only with a story
DATES = ("--dates", OLD)
Words = tuple[str, ...]
Story = tuple[list[Words], Callable[[Dated], Words], Words | None]
Refusal = Callable[[str], tuple[Dated, Words, str]]


def with_file(columns: dict[str, str]) -> Callable[[Dated], Words]:
    def start(site: Dated) -> Words:
        site.write(schema(columns))
        return "ingest", str(site.base / "s.toml"), "--once", "--local"

    return start


def late(site: Dated) -> Words:
    site.late(9, OLD)
    return "truncate", TABLE, *DATES


def words(*given: str) -> Callable[[Dated], Words]:
    return lambda _: given


def deploy(columns: dict[str, str]) -> Callable[[Dated], Words]:
    def start(site: Dated) -> Words:
        site.write(schema(columns))
        return "schema", "deploy", str(site.file)

    return start


def other_rule(site: Dated) -> Words:
    file = site.base / "s.toml"
    file.write_text(file.read_text().replace(f'fixed = "{OLD}"', 'fixed = "2020-01-04"'))
    return "ingest", str(file), "--once", "--local"


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


def history(site: Dated, internal: str = "0") -> Path:
    return site.root / "Systems" / "Test" / "Partitions" / internal / OLD


def copied(site: Dated) -> Words:
    """History of the date, once more under the name of another storage partition."""
    shutil.copytree(history(site), history(site, "1"))
    return "delete-rows", TABLE, "--where", "A >= 0"


def lost(site: Dated) -> Words:
    shutil.rmtree(history(site) / "Event")
    return "dates", "adopt", TABLE, *DATES


def unrecorded(site: Dated) -> Words:
    """History of the date whose merge records are lost, beside the rows of intraday."""
    (records,) = site.root.rglob(f"*.merges/{OLD}")
    shutil.rmtree(records)
    return "read", TABLE, *DATES


def of_a_user(site: Dated) -> Words:
    save_table(site.root, "me.T", pa.table({"A": [1, 2]}))
    return "delete-rows", "me.T", "--where", "A > 0"


MERGE = ("merge", TABLE, *DATES, "--local")
MERGED = [("partitions", "add", "Test", "0"), MERGE]
VALID = [*MERGED, ("validate", TABLE, *DATES)]
WITHOUT_C = {name: kind for name, kind in COLUMNS.items() if name != "C"}
STORIES: dict[str, Story] = {
    "validate before a merge": ([MERGED[0]], words("validate", TABLE, *DATES), None),
    "truncate before a merge": ([MERGED[0]], words("truncate", TABLE, *DATES), None),
    "truncate with later rows": (VALID, late, ("truncate", TABLE, *DATES)),
    "delete before a truncate": (VALID, words("delete", TABLE, *DATES, "--grace", "0"), None),
    "rewrite before a merge": ([MERGED[0]], words("rewrite-column", TABLE, *DATES, "--set", "C=C+1", "--local"), ()),
    "no such table": ([], words("read", "No.Table"), ()),
    "no such date": ([], words("read", TABLE, "--dates", "2030-01-01"), ()),
    "no such stream": ([], words("quarantine", "list", TABLE, "nobody"), ()),
    "drop": ([], words("drop", TABLE, "--grace", "0"), ()),
    "expire": (MERGED, words("dates", "expire", TABLE, "--keep", "1 d"), ()),
    "a file without a column": ([], with_file(WITHOUT_C), None),
    "a stream with rows": (VALID, words("streams", "remove", TABLE, "s"), ()),
    "a name that is none": ([], words("read", "event"), ()),
    "no such column": ([], words("read", TABLE, "--columns", "Nope"), ()),
    "no such column in SQL": ([], words("sql", f"SELECT Nope FROM {TABLE}"), ()),
    "no such table in SQL": ([], words("sql", "SELECT * FROM Nope"), ()),
    "an epoch that is not there yet": ([], words("read", TABLE, "--epoch", "s=99"), ()),
    "show of no epoch": ([], words("epochs", "show", TABLE, "s", "--epoch", "99"), ()),
    "undo of no epoch": ([], words("epochs", "undo", TABLE, "s", "--epoch", "99"), ()),
    "rollback to no epoch": ([], words("epochs", "rollback", TABLE, "s", "--to", "99"), ()),
    "rollback below a merge": (MERGED, words("epochs", "rollback", TABLE, "s", "--to", "0"), ()),
    "validate of no date": ([], words("validate", TABLE, "--dates", "2030-01-01"), ()),
    "merge of no date": ([MERGED[0]], words("merge", TABLE, "--dates", "2030-01-01", "--local"), ()),
    "move before a merge": ([MERGED[0]], words("dates", "move", TABLE, *DATES, "--to", "0"), ()),
    "detach before a merge": ([MERGED[0]], words("dates", "detach", TABLE, *DATES, "--out", "away"), ()),
    "drop of dates before a merge": ([MERGED[0]], words("dates", "drop", TABLE, *DATES), ()),
    "drop of a column that is none": (MERGED, words("rewrite-column", TABLE, *DATES, "--drop", "Nope"), ()),
    "a schema version that is none": ([], words("schema", "deploy", TABLE, "--restore", "99"), ()),
    "deploy without a column": ([], deploy(WITHOUT_C), None),
    "another partition rule": ([], other_rule, None),
    "a stream that is none": ([], words("streams", "remove", TABLE, "nobody"), ()),
    "a Delta table that was put back": ([], put_back, None),
    "history that was copied": (MERGED, copied, None),
    "rows of a user table": ([], of_a_user, ()),
    "adoption of no date": (MERGED, words("dates", "adopt", TABLE, "--dates", "2030-01-01"), ()),
    "history that was removed": (MERGED, lost, None),
    "history without records": (MERGED, unrecorded, None),
    "undo of a withdrawal": (
        [("epochs", "undo", TABLE, "s", "--epoch", "1")],
        words("epochs", "undo", TABLE, "s", "--epoch", "2"),
        (),
    ),
}


def site_with_rows(base: Path) -> Dated:
    site = Dated(base)
    for name, value in (("s", OLD), ("t", "2020-01-03")):
        site.stream(name)
        site.late(len(name), value)
    return site


def follow(site: Dated, told: str) -> list[str]:
    """Runs every command of a message as it stands; what they print. A delete may be told to wait for readers."""
    found = []
    lines = told.replace(f"--root {site.root} ", "").splitlines()
    for known in (words for line in lines for words in calls(line)):
        filled = {"DIR": str(site.base / "copy"), "N": "0"}
        named = [filled.get(word, word) for word in known]
        local = ["--local"] if named[0] in ("merge", "rewrite-column") and "--status" not in named else []
        local += ["--once", "--local"] if named[0] == "ingest" else []
        done = run(site.root, *named, *local)
        waits = done.exit_code == 3 and "run it again in" in done.stderr
        assert done.exit_code == 0 or waits, f"{shlex.join(named)}: {done.output}"
        found.append(done.output)
    return found


def refused(base: Path, name: str) -> tuple[Dated, Words, str]:
    """A site where the command of a story is refused, the command, and what it says."""
    before, fails, _ = STORIES[name]
    site = site_with_rows(base)
    for one in before:
        assert run(site.root, *one).exit_code == 0, one
    asked = fails(site)
    found = run(site.root, *asked)
    assert found.exit_code in (1, 2, 3), found.output
    return site, asked, found.stderr


@pytest.fixture(scope="module")
def refusal(tmp_path_factory: pytest.TempPathFactory) -> Refusal:
    """``refused`` by name, once each."""
    return cache(lambda name: refused(tmp_path_factory.mktemp("story"), name))


@pytest.mark.parametrize("name", STORIES)
def test_a_hint_mends_what_it_is_of(refusal: Refusal, name: str) -> None:
    site, asked, told = refusal(name)
    assert follow(site, told), f"it says nothing to run: {told}"
    again = STORIES[name][2]
    if again != ():
        repeated = run(site.root, *(again or asked))
        assert repeated.exit_code == 0, repeated.output


def test_what_doctor_says_next_leads_to_the_end(tmp_path: Path) -> None:
    """Each step mends its finding, so that after some rounds doctor has nothing more to say of the dates."""
    site = site_with_rows(tmp_path)
    assert run(site.root, "partitions", "add", "Test", "0").exit_code == 0
    done: list[str] = []
    for _ in range(6):
        lines = run(site.root, "doctor", "--json").stdout.splitlines()
        findings = [one for line in lines for one in json.loads(line).get("findings", [json.loads(line)])]
        steps = [one["next"] for one in findings if one.get("check") == "dates" and one.get("next")]
        if not steps:
            break
        for step in dict.fromkeys(steps):
            command = shlex.split(step)[1:]
            local = ["--local"] if "merge" in command else []
            result = run(site.root, *command, *local)
            assert result.exit_code == 0, f"{step}: {result.output}"
            done.append(command[2])
    assert not steps and {"merge", "truncate"} <= {*done}, done


def test_few_messages_with_a_command_are_left_untried(refusal: Refusal) -> None:
    """Who adds a message with a command adds its story; a story that is added lowers the number."""
    told = [re.sub(r"--root \S+ ", "", refusal(name)[2]) for name in STORIES]
    patterns = [
        re.compile(".+?".join(re.escape(part) for part in message.text.split(FILLED)), re.DOTALL)
        for message in messages()
        if [*calls(message.text)]
    ]
    untried = [pattern for pattern in patterns if not any(pattern.search(text) for text in told)]
    assert len(untried) <= UNTRIED < len(patterns), len(untried)
