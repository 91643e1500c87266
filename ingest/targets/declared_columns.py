"""Columns that a source declares (Parquet schema, CSV header, ``names`` of settings) against those that a table stores.

A column that is not declared would be null in every row, without any value being wrong: the source is refused, unless
settings say that missing columns are null. A source that declares none of them is refused in any case.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from difflib import get_close_matches

from sparkhaven.ingest.spec.payload_formats import MissingColumns
from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.store.errors import FeedError, SparkhavenError, listed


def require_columns(
    targets: Sequence[Target],
    declared: Sequence[str],
    where: str,
    missing: MissingColumns = "fail",
    *,
    source: str = "the schema of a file",
    further: Collection[str] = frozenset(),
    kind: type[SparkhavenError] = FeedError,
) -> None:
    """Raises ``kind`` with the columns that are missing, those found, and which of them may be meant.

    ``source`` is what declares them, at ``where``.
    ``further`` names columns that are declared elsewhere and null here.
    """
    wanted = {target.source: target for target in targets if target.meta is None}
    lacking = [name for name in wanted if name not in declared]
    if not lacking:
        return
    lacking = [name for name in lacking if name not in further]
    none = len(lacking) == len(wanted)
    if not lacking or (missing == "null" and not none):
        return
    routing = any(not wanted[name].stored for name in lacking)
    others = [name for name in declared if name not in wanted]
    near = {wanted[name].column.name: close for name in lacking if (close := near_name(name, others))}
    has, lacks = ("have", "lack") if source.startswith("names") else ("has", "lacks")
    needing = "the partition needs" if routing else "the table stores"
    raise kind(
        f"{source} {has} no field that a column takes, so all rows would be nulls"
        if none
        else f"{source} {lacks} columns that {needing}, which would be null in all rows",
        where=where,
        expected=listed([*map(repr, lacking)]),
        found=listed([*map(repr, dict.fromkeys(declared))]) or "no column at all",
        hint=_hint(near, none or routing),
    )


def near_name(name: str, others: Sequence[str]) -> str | None:
    """The one of ``others`` that may be meant by a name: equal but for case, blanks, dashes; else the most alike."""
    folded = {_folded(other): other for other in reversed(others)}
    if _folded(name) in folded:
        return folded[_folded(name)]
    close = get_close_matches(_folded(name), list(folded), n=1, cutoff=0.75)
    return folded[close[0]] if close else None


def _folded(name: str) -> str:
    return "".join(name.casefold().split()).replace("_", "").replace("-", "").strip("\"'\ufeff")


def _hint(near: dict[str, str], needed: bool) -> str:
    named = {name: json.dumps(close, ensure_ascii=False) for name, close in list(near.items())[:3]}
    mapped = ", ".join(f"{name} = {{ from = {text} }}" for name, text in named.items())
    meant = f"if these are meant, write {mapped} under [columns]. " if near else ""
    allow = "" if needed else ', or set missing_columns = "null" in [feed] to store nulls'
    return f"{meant}{'Else c' if near else 'c'}orrect the producer, or the names under [columns] or in [feed]{allow}"
