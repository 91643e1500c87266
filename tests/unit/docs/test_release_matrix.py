"""The workflow for a code host tries the releases that the page of releases names."""

from __future__ import annotations

import re

from tests.support.places import REPOSITORY
from tests.versions.matrix import PAGE

WORKFLOW = REPOSITORY / ".github" / "workflows" / "ci.yml"
_ROW = re.compile(r"^\| (\d+\.\d+)\.\d+ \| (\d+\.\d+) \| (\d+) \|", re.MULTILINE)
_ENTRY = re.compile(r'- \{ spark: "([\d.]+)", python: "([\d.]+)", jdk: "(\d+)" \}')


def test_the_matrix_is_that_of_the_page() -> None:
    rows = _ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert rows
    assert sorted(_ENTRY.findall(WORKFLOW.read_text(encoding="utf-8"))) == sorted(rows)
