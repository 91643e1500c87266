"""What a table may ask of its nights beside the usual steps: duplicates, late rows, retention, snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from .sections import Section

RULES = ("dedupe", "last_by", "upsert")  # at most one


@dataclass(frozen=True, slots=True)
class NightOptions:
    """``merge``: further words of its merges. ``late``: how long after its day a date is merged again for late rows.

    ``retention``: how long dates stay in history. ``snapshot``: the directory of its snapshots, of which ``snapshots``
    are kept (0: all).
    """

    merge: tuple[str, ...] = ()
    late: timedelta | None = None
    retention: timedelta | None = None
    snapshot: Path | None = None
    snapshots: int = 0


def night_options(section: Section) -> NightOptions:
    """The options in the section of a table."""
    return NightOptions(
        (*section.texts("merge_options"), *_duplicates(section)),
        section.duration("late", "0 s") if "late" in section else None,
        section.duration("retention", "0 s") if "retention" in section else None,
        section.path("snapshot") if "snapshot" in section else None,
        section.whole("snapshots", 0),
    )


def _duplicates(section: Section) -> tuple[str, ...]:
    """Words by which a merge keeps one row of a key."""
    rules = {
        "dedupe": section.texts("dedupe"),
        "last_by": section.texts("last_by"),
        "upsert": section.texts("upsert"),
    }
    chosen = [rule for rule in RULES if rules[rule]]
    if len(chosen) > 1:
        raise section.wrong(chosen[1], f"one of {', '.join(RULES)}", list(rules[chosen[1]]))
    order: tuple[str, ...] = ("--order-by", section.text("order_by")) if "order_by" in section else ()
    keep: tuple[str, ...] = ("--keep", section.choice("keep", "first", ("first", "last"))) if "keep" in section else ()
    if not chosen:
        if order or keep:
            key, words = ("keep", keep) if keep else ("order_by", order)
            raise section.wrong(key, f"with one of {', '.join(RULES)}", words[-1])
        return ()
    (rule,) = chosen
    return f"--{rule.replace('_', '-')}", ",".join(rules[rule]), *keep, *order
