"""Settings of Sphinx. Markers like ``<!-- generated: cli -->`` in pages are replaced by what the code says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from docs.generate import GENERATED  # noqa: E402

project = "sparkhaven"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["generate", "_build"]
html_theme = "furo"
html_title = "sparkhaven"
html_show_copyright = False
html_show_sphinx = False
myst_heading_anchors = 4
smartquotes = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
suppress_warnings = ["myst.header"]  # generated pages begin where the page that holds them is

MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def _generate(_app: Any, _page: str, source: list[str]) -> None:
    source[0] = MARK.sub(lambda mark: GENERATED[mark[1]](), source[0])


def setup(app: Any) -> None:
    """Connects the generators to Sphinx."""
    app.connect("source-read", _generate)
