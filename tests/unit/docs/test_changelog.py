"""Change fragments: their names, and the section that they become."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.places import REPOSITORY
from tools.docs.changelog import fragments, main


def written(root: Path, **texts: str) -> Path:
    (root / "changes").mkdir()
    (root / "changes" / "README.md").write_text("about\n")
    for name, text in texts.items():
        (root / "changes" / (name.replace("__", ".") + ".md")).write_text(text)
    (root / "CHANGELOG.md").write_text("# Changelog\n\n## 0.1.0\n\nfirst\n")
    return root


def test_fragments_become_a_section_above_the_others(tmp_path: Path) -> None:
    root = written(tmp_path, b__fixed="Two\nlines.\n", a__added="New.\n", c__fixed="Three.\n")
    assert main(["0.2.0", "--date", "2027-01-02"], root) == 0
    expected = (
        "# Changelog\n\n## 0.2.0 (2027-01-02)\n\n### Added\n\n- New.\n\n### Fixed\n\n- Two\n  lines.\n- Three.\n\n"
    )
    assert (root / "CHANGELOG.md").read_text() == expected + "## 0.1.0\n\nfirst\n"
    assert [path.name for path in (root / "changes").iterdir()] == ["README.md"]


def test_without_fragments_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = written(tmp_path)
    assert main(["0.2.0"], root) == 2
    assert "no fragments" in capsys.readouterr().err
    assert "0.2.0" not in (root / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("name", ["a__new", "A__fixed", "fixed"])
def test_another_name_is_refused_and_nothing_changes(name: str, tmp_path: Path) -> None:
    root = written(tmp_path, **{name: "text\n", "b__fixed": "text\n"})
    assert main(["0.2.0"], root) == 2
    assert (root / "changes" / "b.fixed.md").exists()
    assert "0.2.0" not in (root / "CHANGELOG.md").read_text()


def test_the_fragments_of_the_repository_have_names_and_texts() -> None:
    assert all(path.read_text(encoding="utf-8").strip() for path in fragments(REPOSITORY / "changes"))
