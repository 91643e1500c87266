"""A story of a message that names a command: the state it is of, what is told, the command that is told, and the end.

A story is run on a real database. What is told is run as it stands, but for what a person has to fill in.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from sparkhaven.store.errors import SparkhavenError
from tests.support.commands import run
from tests.support.docs.hints import FILLED, Message, calls, messages
from tests.support.streams.dated_site import OLD, Dated
from tests.support.streams.schema_site import TABLE

Words = tuple[str, ...]
# names in the interface of Spark
APPLICATIONS = {"sparkhaven ingest", "sparkhaven merge", "sparkhaven quarantine", "sparkhaven rewrite-column"}
DATES = ("--dates", OLD)
ADD: Words = ("partitions", "add", "Test", "0")
MERGE: Words = ("merge", TABLE, *DATES, "--local")
VALIDATE: Words = ("validate", TABLE, *DATES)
TRUNCATE: Words = ("truncate", TABLE, *DATES)
DELETE: Words = ("delete", TABLE, *DATES, "--grace", "0")
MERGED = (ADD, MERGE)
VALID = (*MERGED, VALIDATE)
TRUNCATED = (*VALID, TRUNCATE)
REMOVED = (*TRUNCATED, DELETE)
SAME: Words = ("the command that was refused",)
NOTHING: Words = ()


@dataclass(frozen=True, slots=True)
class Story:
    """``before`` is run, ``state`` makes the rest and gives the command that tells, or what was told.

    ``tells`` is a part of the message that no other message has. ``by_hand`` does what a message asks of a person
    before its commands. ``fills`` is what a person fills in. ``again`` is the command that then passes.
    """

    tells: str | tuple[str, ...]
    state: Callable[[Dated], Words | str] | Words
    before: tuple[Words, ...] = ()
    again: Words = NOTHING
    by_hand: Callable[[Dated], object] | None = None
    fills: Mapping[str, str] = field(default_factory=dict)

    def told(self, site: Dated) -> tuple[Words, str]:
        """Makes the state; the command that is refused, and all that it prints, without the root."""
        for words in self.before:
            do(site, *words)
        asked = self.state if isinstance(self.state, tuple) else self.state(site)
        if isinstance(asked, str):
            return NOTHING, asked
        return asked, run(site.root, *asked).output.replace(f"--root {site.root} ", "")

    def named(self) -> list[Message]:
        """The messages that ``tells`` names: each by its text, or by a part that it alone has."""
        parts = (self.tells,) if isinstance(self.tells, str) else self.tells
        return [named(part) for part in parts]

    def follow(self, site: Dated, asked: Words, told: str) -> int:
        """Does what is told; the number of commands. Each passes, or says what else to do."""
        if self.by_hand is not None:
            self.by_hand(site)
        empty = site.base / "empty"
        known = {"DIR": str(empty), "N": "0", "FILE": str(site.file), "ROOT": str(site.root)}
        known |= {"FILE.parquet": str(site.base / "T.parquet"), **self.fills}
        commands = dict.fromkeys(tuple(words) for line in told.splitlines() for words in calls(line))
        for words in commands:
            filled = [known.get(word, word) for word in words]
            if "--volume" in words:
                empty.mkdir(exist_ok=True)
            is_run = filled[0] in ("merge", "rewrite-column") and not {"--status", "--help"} & {*filled}
            local = ["--local"] if is_run else []
            local += ["--once", "--local"] if filled[0] == "ingest" else []
            done = run(site.root, *filled, *local)
            waits = done.exit_code == 3 and "run it again in" in done.stderr
            assert done.exit_code == 0 or waits or leads_on(list(words), done.exit_code, done.output), (
                f"{shlex.join(filled)} ends with {done.exit_code}: {done.output}"
            )
        if self.again != NOTHING:
            repeated = run(site.root, *(asked if self.again is SAME else self.again))
            assert repeated.exit_code == 0, repeated.output
        return len(commands)


def leads_on(words: list[str], code: int, output: str) -> bool:
    """Whether a command that finds damage says what else to do, and not to run itself."""
    again = [told for line in output.splitlines() for told in calls(line)]
    return code == 1 and "to do: " in output and words not in again


def site_with_rows(base: Path) -> Dated:
    """A row each of two dates, intraday."""
    site = Dated(base)
    for name, value in (("s", OLD), ("t", "2020-01-03")):
        site.stream(name)
        site.late(len(name), value)
    return site


def do(site: Dated, *words: str) -> None:
    """Runs a command, which passes."""
    done = run(site.root, *words)
    assert done.exit_code == 0, f"{shlex.join(words)}: {done.output}"


def told_by(act: Callable[[], object]) -> str:
    """What an error of Python says."""
    try:
        act()
    except SparkhavenError as error:
        return str(error)
    raise AssertionError("there is no error")


@cache
def with_commands() -> tuple[Message, ...]:
    """All messages that name a command."""
    return tuple(m for m in messages() if m.text not in APPLICATIONS and [*calls(m.text)])


def pattern(message: Message) -> re.Pattern[str]:
    """Finds a message in what is printed."""
    text = re.sub(r"\[/?[a-z]+\]", "", message.text).replace("{}", FILLED)  # colours; what `format` fills
    return re.compile(".*?".join(re.escape(part) for part in text.split(FILLED)), re.DOTALL)


def named(part: str) -> Message:
    """The message of this text, or the only one that has this part."""
    known = {message.text: message for message in with_commands()}
    found = [known[part]] if part in known else [message for text, message in known.items() if part in text]
    assert len(found) == 1, f"{part!r} is of {len(found)} messages"
    return found[0]
