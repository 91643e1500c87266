"""What a message tells a person to run is run: the state is mended, or another step is told."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.docs.hints import Message
from tests.support.hints import copies, damage, dates, epochs, reads, schemas
from tests.support.hints.story import Story, leads_on, named, pattern, site_with_rows, with_commands
from tests.support.places import REPOSITORY
from tests.support.streams.dated_site import OLD

pytestmark = pytest.mark.slow
MODULES = (reads, schemas, dates, epochs, copies, damage)
STORIES: dict[str, Story] = {name: story for module in MODULES for name, story in module.STORIES.items()}
BUG = "only a bug, or a disk that changes bytes while the command runs, makes the state"
UNTRIED = {  # a part of a message, and why nothing runs it here
    "` shows the definition": "no definition is known that a schema file loses",
    "sparkhaven class-archive": "starts a JVM for a minute, and writes to the cache of the user",
    "without Spark, see `sparkhaven quarantine list --help`": "needs a release of Spark that Delta has no jars for",
    "`sparkhaven verify --deep` checks the values": "tests/unit/readers/inspect/test_inspect_coded.py has the state",
    "writes the table again": "tests/unit/jobs/cli/history/test_metadata_locations.py runs it on trees of others",
    "which writes them once. Then run": "needs Spark: tests/spark/frames/test_frame_quarantine.py runs it",
    "nothing was published. Run `sparkhaven verify --deep` and do it again": BUG,
    "nothing was published. Run `sparkhaven verify --deep` and merge again": BUG,
    "the tree is as it was. Run": BUG,
    "looks at the original": BUG,
    "report it: this is a bug. Epochs": BUG,
    "and report it: this is a bug. Nothing": BUG,
    "and only one look found this": "needs a writer between two looks of one process",
    "`sparkhaven epochs rollback 7 7 --to 7`": "needs Spark: tests/spark/frames/test_frames.py has the state",
    "--rewrite, then truncate again": "the witnesses of the log refuse before: a second look before a removal",
}


@pytest.mark.parametrize("name", STORIES)
def test_a_hint_mends_what_it_is_of(tmp_path: Path, name: str) -> None:
    story, site = STORIES[name], site_with_rows(tmp_path)
    asked, told = story.told(site)
    for message in story.named():
        assert pattern(message).search(told), f"not told: {message.text}\n{told}"
    assert story.follow(site, asked, told), f"it says nothing to run: {told}"


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("`sparkhaven read No.Table`", "ends with 2"),
        ("nothing", "0 commands"),
    ],
)
def test_a_hint_that_leads_nowhere_is_seen(tmp_path: Path, told: str, why: str) -> None:
    site = site_with_rows(tmp_path)
    (column,) = site.root.rglob(f"s/{OLD}/Event/A.dat")
    column.unlink()
    story = Story("a message", ())
    with pytest.raises(AssertionError, match=why):
        count = story.follow(site, (), told)
        assert count, f"{count} commands"


def test_a_hint_that_leads_in_a_circle_is_seen() -> None:
    told = "to do: run `sparkhaven verify --deep`"
    assert leads_on(["recover"], 1, told) and not leads_on(["verify", "--deep"], 1, told)
    assert not leads_on(["recover"], 1, "damaged") and not leads_on(["recover"], 2, told)


def test_each_message_with_a_command_has_a_story_or_a_reason() -> None:
    """Who adds a message with a command adds its story."""
    tried = {message.text for story in STORIES.values() for message in story.named()}
    excused = {named(part).text for part in UNTRIED}
    assert tried & excused == set()
    assert [_at(message) for message in with_commands() if message.text not in tried | excused] == []


def test_no_two_messages_say_the_same() -> None:
    """What several say is a function of ``store.next_steps``, or another one."""
    texts: dict[str, list[str]] = {}
    for message in with_commands():
        texts.setdefault(message.text, []).append(_at(message))
    assert [places for places in texts.values() if len(places) > 1] == []


def _at(message: Message) -> str:
    return f"{message.file.relative_to(REPOSITORY)}:{message.line}: {message.text}"


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
