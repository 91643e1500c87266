"""Files that the compiled core reads by itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class CoreReads:
    """The part of ``Fs`` that hands files to the core."""

    def read_together(self, paths: Sequence[str], read: Callable[[], T]) -> T:
        """Calls ``read``, which reads these files in the compiled core; a test may come between."""
        del paths
        return read()

    @contextmanager
    def descriptors(self, paths: Sequence[Path]) -> Iterator[list[int]]:
        """Files open for reading, for the compiled core, until the end of the block."""
        with ExitStack() as opened:
            descriptors = []
            for path in paths:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                opened.callback(os.close, descriptor)
                descriptors.append(descriptor)
            yield descriptors
