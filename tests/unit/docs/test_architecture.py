"""The table of folders in ARCHITECTURE.md: a row for each folder with modules, no other row, and each of them short."""

from __future__ import annotations

import re

from tests.support.places import REPOSITORY

PACKAGES = ("sparkhaven", "pyspark_sparkhaven", "airflow_dags", "jobs", "ingest", "writers", "readers", "store")
ROW = re.compile(r"^\| `([\w/]+)/` \| (.+) \|$", re.MULTILINE)
LONGEST = 25  # words of a row


def rows() -> list[tuple[str, str]]:
    """Folder and what it holds, for each row of the table."""
    text = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")
    return ROW.findall(text.partition("## Folders")[2].partition("\n## ")[0])


def test_every_folder_with_modules_has_one_row_and_no_row_lacks_its_folder() -> None:
    modules = (path for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py"))
    folders = {str(path.parent.relative_to(REPOSITORY)) for path in modules}
    assert sorted(folder for folder, _ in rows()) == sorted(folders)


def test_a_row_is_short() -> None:
    assert [(folder, holds) for folder, holds in rows() if len(holds.split()) > LONGEST] == []
