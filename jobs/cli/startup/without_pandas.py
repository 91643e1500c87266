"""Keeps PyArrow from importing pandas, whose import takes longer than most commands.

PyArrow imports an installed pandas with its first array or scalar, to recognise pandas' objects. The commands here pass
it none. Code that needs pandas by name, like ``to_pandas``, still imports it later.
"""

from __future__ import annotations

import sys


class _WithoutPandas:
    @staticmethod
    def find_spec(fullname: str, path: object, target: object = None) -> None:
        del path, target
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=fullname)


def forgo_pandas() -> None:
    """Lets PyArrow look for pandas while it cannot be found. Only for commands: a program may pass Series."""
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(finder)
