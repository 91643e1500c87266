"""``[feed]`` of a stream file with type delta: a pydantic model, and the options that it stands for."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from sparkhaven.ingest.feeds.delta.options import DeltaOptions
from sparkhaven.ingest.settings.base_model import MaxPerTrigger, PathText, SettingsModel, beside
from sparkhaven.ingest.spec.payload_formats import MissingColumns


class DeltaFeedModel(SettingsModel):
    """``[feed]`` with type delta."""

    type: Literal["delta"]
    """Feed of a Delta table, followed by version."""
    path: PathText
    """Directory of the Delta table; relative to the stream file."""
    start_version: int | None = Field(default=None, ge=0)
    """First version to ingest. Default: what the table holds now, then each later version."""
    max_per_trigger: MaxPerTrigger = MaxPerTrigger(bytes=256_000_000)
    """Largest batch: the smallest of the limits given."""
    ignore_changes: bool = False
    """Versions that rewrite or delete rows: ingest the files that they add, instead of stopping. Copied rows then come
    twice.
    """
    missing_columns: MissingColumns = "fail"
    """A stored column that neither a data file nor the table declares: refused, or null."""
    binary_as_text: bool = False
    """Columns of bytes are texts in UTF-8."""


def delta_options(feed: DeltaFeedModel, base: Path) -> DeltaOptions:
    """The options of a checked ``[feed]``; a relative path starts from ``base``."""
    return DeltaOptions(
        str(beside(base, feed.path)),
        feed.start_version,
        feed.max_per_trigger.limit,
        feed.ignore_changes,
        feed.missing_columns,
        feed.binary_as_text,
    )
