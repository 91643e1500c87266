"""The collector of cycles at rest, while many objects are made that hold none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """The collector rests: it would look through every object that is held, again and again, for a third of the time.

    For stretches that end and make no cycles that would matter before their end.
    """
    rests = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if rests:
            gc.enable()
