"""The directory of a benchmark: fresh, and removed at the end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch(name: str = "sparkhaven-bench", above: Path | None = None) -> Iterator[Path]:
    """A directory below ``above``, or below the one for temporary files."""
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=above, ignore_cleanup_errors=True) as directory:
        yield Path(directory)
