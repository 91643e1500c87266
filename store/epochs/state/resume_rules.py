"""Resume rules: what becomes of a source position that a batch proposes, judged by what is committed.

Where the rows of a stream go: the settings that decide internal partition and partition value.

They are kept in the commit log. By other ones the same instant may lie in two dates, so a start compares them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sparkhaven.store.errors import SettingsError

PAGE = "docs/reference/rules.md"
TABLE, STREAM = "NS.T", "STREAM"
"""Stand in hints of feeds, which know neither; whoever runs the stream puts the names in."""
ROLL_BACK = (
    f"`sparkhaven epochs list {TABLE} {STREAM}` shows the epochs."
    f" Go back by `sparkhaven epochs rollback {TABLE} {STREAM} --to N` to one"
)


class ResumeRule(StrEnum):
    """The rules by which a stream resumes; errors cite the one that they follow."""

    CONTINUES = "R1"
    REPEATED = "R2"
    CHANGED = "R3"
    OVERLAPS = "R4"
    TAKEN_BEFORE = "R5"
    GAP = "R6"
    NEW_QUERY = "R7"
    LOST_LOG = "R8"
    FIRST_SEEN = "R9"

    @property
    def situation(self) -> str:
        """What is proposed, beside what is committed."""
        return _RULES[self][0]

    @property
    def resolution(self) -> str:
        """What the stream does."""
        return _RULES[self][1]

    @property
    def cited(self) -> str:
        """The rule in an error, with the page that explains it."""
        return f"{self}, see {PAGE}"


_RULES = {
    ResumeRule.CONTINUES: (
        "A range starts at the committed end. Of files: the file is not taken, and is not older than the horizon.",
        "It is written.",
    ),
    ResumeRule.REPEATED: (
        "The range is the last committed one, with the same digest. Of files: taken, with the same size and time.",
        "It is dropped and counted, whatever Spark's batch id says.",
    ),
    ResumeRule.CHANGED: (
        "The range is the last committed one, with another digest. Of files: taken, with another size or time.",
        "The stream stops with PositionGapError. The source is not repeatable.",
    ),
    ResumeRule.OVERLAPS: (
        "A range starts before the committed end and stops after it.",
        "The part from the committed end on is written.",
    ),
    ResumeRule.TAKEN_BEFORE: (
        "A range stops at or before the committed end. Of files: the file is older than the horizon.",
        "It is dropped and counted.",
    ),
    ResumeRule.GAP: (
        "A range starts after the committed end. Files have no gaps.",
        "The stream stops with PositionGapError, unless a gap permits exactly this jump.",
    ),
    ResumeRule.NEW_QUERY: (
        "Spark's batch ids start again, under a new query id.",
        "It has no effect. Positions decide, never batch ids.",
    ),
    ResumeRule.LOST_LOG: (
        "Spark has run batches of a stream of which the commit log has no epoch.",
        "The stream stops with PositionGapError, because the log was lost. An adopted stream goes on.",
    ),
    ResumeRule.FIRST_SEEN: (
        "A range is of a topic partition that was never read.",
        "It is written, from wherever it starts.",
    ),
}


ZONE = "value.zone"


@dataclass(frozen=True, slots=True)
class PartitionRule:
    """Settings by their names below ``[partition]``, and those of ``[columns]`` for the columns that they name.

    Only those that are not as usual are there.
    """

    settings: Mapping[str, str]

    @property
    def zone(self) -> str:
        """The time zone whose days or hours are the partition values; "" where they are a fixed text."""
        return self.settings.get(ZONE, "")

    def __str__(self) -> str:
        return ", ".join(
            f"{name} = {json.dumps(self.settings[name], ensure_ascii=False)}" for name in sorted(self.settings)
        )

    def to_json(self) -> dict[str, str]:
        """The settings, for a record and for machines."""
        return dict(self.settings)


def decode_rule(value: Mapping[str, Any]) -> PartitionRule | None:
    """That of a record; None where it has none."""
    rule = value.get("rule")
    return None if rule is None else PartitionRule({str(name): str(text) for name, text in dict(rule).items()})


def zone_of(rule: PartitionRule | None) -> str | None:
    """The time zone of the partition values; None where that is not known."""
    return None if rule is None else rule.zone


def rule_words(before: PartitionRule, now: PartitionRule) -> str:
    """One rule in the place of another, in a line."""
    return f"{now} instead of {before}"


def rule_changed(stream: str, table: object, before: PartitionRule, now: PartitionRule) -> SettingsError:
    """The error for a start by another rule than that of the rows that are stored."""
    return SettingsError(
        "the partition rule of a stream has changed: rows of one date would lie in two",
        where=f"stream {stream} of {table}",
        expected=str(before),
        found=str(now),
        hint="put the rule back, or accept the new one: `--accept-rule` of ingest, `accept_rule` of a writer."
        " Rows that are stored stay where they are",
    )
