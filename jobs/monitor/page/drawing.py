"""Drawing of pictures: Vega-Lite by ``vl-convert-python``, an optional extra, which needs no network."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from sparkhaven.store.errors import SettingsError

Draw = Callable[[dict[str, Any]], str]
"""A picture as SVG text."""

KEPT = 256  # pictures


def require_library() -> None:
    """SettingsError: the library is not installed."""
    if find_spec("vl_convert") is None:
        raise SettingsError(
            "the library that draws the pictures of the page is not installed",
            expected="the package vl-convert-python",
            found="no such package",
            hint="pip install 'sparkhaven[page]'",
        )


class Drawings:
    """Draws pictures and keeps the newest: one that has not changed is not drawn again. For one thread at a time."""

    def __init__(self, draw: Draw | None = None) -> None:
        self._draw = draw or _vega
        self._kept: OrderedDict[str, str] = OrderedDict()

    def __call__(self, spec: dict[str, Any]) -> str:
        key = json.dumps(spec, sort_keys=True)
        if key not in self._kept:
            self._kept[key] = self._draw(spec)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


def _vega(spec: dict[str, Any]) -> str:
    import vl_convert  # an optional extra

    svg: str = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    return svg
