"""Where the rows of a stream go: the settings that decide internal partition and partition value.

They are kept in the commit log. By other ones the same instant may lie in two dates, so a start compares them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkhaven.store.errors import SettingsError

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
