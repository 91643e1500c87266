"""Arrow's compute functions, imported with the first that is called: a short read does without, and they take long."""

from __future__ import annotations

from typing import Any


class _Kernels:
    """``pc.sum`` and all others, as in ``pyarrow.compute``."""

    def __getattr__(self, name: str) -> Any:
        from pyarrow import compute

        found = self.__dict__[name] = getattr(compute, name)  # the next call finds it without us
        return found


pc = _Kernels()
