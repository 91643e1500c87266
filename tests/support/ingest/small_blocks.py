"""Decoding in small blocks, so that small files reach over their ends."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from sparkhaven.ingest.content.lines import line_blocks
from sparkhaven.ingest.content.raw_file import PlannedFile


def small_blocks(
    patch: pytest.MonkeyPatch,
    block: int,
    max_record: int,
    *,
    max_line: int | None = None,
    chunk: int = 7,
    lines: int = 10**6,
) -> None:
    """Limits in bytes of blocks, records, lines (default: as records) and chunks of a file; of blocks also in lines."""
    blocks = partial(line_blocks, block=block, max_line=max_line or max_record, lines=lines)
    for module in ("feeds.files.formats.decoding", "feeds.files.formats.csv_files"):
        patch.setattr(f"sparkhaven.ingest.{module}.line_blocks", blocks)
    patch.setattr(PlannedFile, "chunks", lambda file, block=None: pieces(Path(file.split.path).read_bytes(), chunk))
    patch.setattr("sparkhaven.ingest.content.raw_file.CHUNK", chunk)
    patch.setattr("sparkhaven.ingest.feeds.files.formats.csv_files.BLOCK", block)
    patch.setattr("sparkhaven.ingest.formats.csv.spans.MAX_RECORD", max_record)


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """The data in pieces of a size."""
    return (data[at : at + size] for at in range(0, len(data), size))
