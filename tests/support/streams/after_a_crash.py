"""How a stream goes on after a crash."""

from __future__ import annotations

from pathlib import Path

from tests.support.disks.model_fs import CrashingFs
from tests.support.streams.stream_kit import file_sizes_are_exact, numbers
from tests.support.streams.stream_story import ROWS, Groups, tell

EXACT = [*range(ROWS)]


def goes_on(root: Path, story: list[Groups], **settings: str) -> list[int]:
    """A new start takes the rest; files end where they should."""
    log = tell(CrashingFs(**settings), root, story)  # type: ignore[arg-type]
    assert file_sizes_are_exact(root, log.state)
    return numbers(root, log.state)
