"""Exports of a snapshot: the words that ask for one, and the tree that they make."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypedDict, TypeVar

from sparkhaven.jobs.settings.keywords import Names, as_names
from sparkhaven.readers.arrow.snapshot import Snapshot, pinned_of
from sparkhaven.store.errors import SettingsError, meant
from sparkhaven.store.format.parquet.trees import LAYOUTS
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.document.vocabulary import MERGE_CODECS
from sparkhaven.writers.transfer.export import Exported, export_path, export_tree, planned_export
from sparkhaven.writers.transfer.export_plan import LEAVES, ExportOptions

Word = TypeVar("Word", bound=str)


class ExportKeywords(TypedDict, total=False):
    """The form of an export: the keywords of ``Table.export``, as the options of ``sparkhaven export``.

    ``layout``: ``kv``, ``nested``, ``flat``, ``metadata`` or ``hive``. ``by``: columns that become directories below
    those of the date. ``leaf``: ``parquet``, in a hive tree also ``deephaven``. ``replace``: replace another export in
    the directory. ``as_of`` and ``skip_set_aside`` say which snapshot.
    """

    layout: str
    dates: Names | None
    columns: Names | None
    by: Names | None
    tier: str
    codec: str | None
    leaf: str
    replace: bool
    as_of: datetime | str | None
    skip_set_aside: bool


def export_snapshot(
    place: TablePlace,
    opened: Snapshot,
    out: Path,
    given: ExportKeywords,
    note: Callable[[str], None],
    *,
    dry_run: bool = False,
) -> Exported:
    """Exports a snapshot of a table; raises what ``export_path`` and ``export_tree`` raise.

    SettingsError: a word is none of its option.
    """
    dates = as_names(given.get("dates"))
    options = ExportOptions(
        _one_of("layout", given.get("layout", "kv"), LAYOUTS),
        _one_of("leaf", given.get("leaf", "parquet"), LEAVES),
        _codec(given.get("codec")),
        as_names(given.get("columns")),
        dates or None,
        given.get("tier", "all"),
        by=as_names(given.get("by")) or (),
    )
    path, replace = export_path(place.fs, place.layout, out), given.get("replace", False)
    if dry_run:
        return planned_export(pinned_of(opened), path, options, replace_other=replace)
    now_ms = int(time.time() * 1000)
    return export_tree(pinned_of(opened), path, options, now_ms=now_ms, replace_other=replace, on_progress=note)


def _one_of(option: str, word: str, words: Sequence[Word]) -> Word:
    for known in words:
        if word == known:
            return known
    hint = meant(word, words) or None
    raise SettingsError(f"unknown {option}", expected=", ".join(words), found=repr(word), hint=hint)


def _codec(word: str | None) -> str | None:
    if word is None or word.upper() in MERGE_CODECS:
        return word and word.upper()
    raise SettingsError("unknown codec", expected=", ".join(MERGE_CODECS), found=repr(word))
