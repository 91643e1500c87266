"""Keeps libraries from importing what takes longer than most commands: PyArrow pandas, the XML parser an HTTP client.

PyArrow imports an installed pandas with its first array or scalar, to recognise pandas' objects. The commands here pass
it none. Code that needs pandas by name, like ``to_pandas``, still imports it later.

``xml.sax.saxutils`` imports ``urllib.request`` to open URLs. Schemas are parsed from bytes, and whatever needs URLs
imports it again.
"""

from __future__ import annotations

import sys
from types import ModuleType

_HTTP = "urllib.request"


class _WithoutPandas:
    @staticmethod
    def find_spec(fullname: str, path: object, target: object = None) -> None:
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


def forgo_http() -> None:
    """Imports the parser's helpers while an empty module stands for ``urllib.request``; idempotent."""
    if "xml.sax.saxutils" in sys.modules or _HTTP in sys.modules:
        return
    sys.modules[_HTTP] = ModuleType(_HTTP)
    try:
        import xml.sax.saxutils  # noqa: F401
    finally:
        del sys.modules[_HTTP]
