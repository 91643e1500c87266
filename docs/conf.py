"""Settings of Sphinx. Generated parts stand in the pages: ``make reference`` writes them."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

project = "sparkhaven"
extensions = ["sphinx.ext.napoleon", "myst_parser", "sphinx.ext.autodoc"]
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
