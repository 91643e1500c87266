"""The first array of a process without pandas, whose import takes longer than most commands.

PyArrow imports pandas, where it is installed, when it makes its first array or scalar, to know pandas' own objects. Our
commands hand it none. What needs pandas by name, as ``to_pandas`` does, imports it later all the same.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder


class _WithoutPandas(MetaPathFinder):
    @staticmethod
    def find_spec(fullname: str, path: object, target: object = None) -> None:
        del path, target
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=fullname)


def forgo_pandas() -> None:
    """Lets PyArrow look for pandas while it cannot be found. For commands only: a program may hand over Series."""
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(finder)
