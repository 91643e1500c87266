"""Keeps the XML parser from importing a client of HTTP, which takes longer than parsing a schema.

``xml.sax.saxutils`` imports ``urllib.request`` to open URLs. Schemas are parsed from bytes, and whatever needs URLs
imports it again.
"""

from __future__ import annotations

import sys
from types import ModuleType

_HTTP = "urllib.request"


def forgo_http() -> None:
    """Imports the parser's helpers while an empty module stands for ``urllib.request``; idempotent."""
    if "xml.sax.saxutils" in sys.modules or _HTTP in sys.modules:
        return
    sys.modules[_HTTP] = ModuleType(_HTTP)
    try:
        import xml.sax.saxutils  # noqa: F401
    finally:
        del sys.modules[_HTTP]
