"""The texts in the code are found, whatever they are passed to, and an error breaks no rule of errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.docs.code_texts import code_texts, error_faults
from tools.docs.words import REPOSITORY, faults


def of_module(tmp_path: Path, source: str) -> Path:
    """A repository of one module."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "module.py").write_text(source)
    return tmp_path


def test_an_error_states_its_violation_and_its_hint_the_real_names() -> None:
    assert list(error_faults(REPOSITORY)) == []


def test_texts_of_every_kind_are_found() -> None:
    found = {text for _, text in code_texts(REPOSITORY)}
    assert "more bad rows than the budget allows" in found  # an error
    assert "restore it from a copy. Nothing was committed" in found  # a hint
    assert "two columns have the same name, or names that differ in case only" in found  # a finding of schema check
    assert "no row of this batch has a value for X. Check `from` under [columns]" in found  # a warning
    assert "X, see `sparkhaven quarantine list X X`" in found  # progress
    assert "Nothing: no check has found anything." in found  # the operations page
    assert len(found) > 2000


def test_a_text_is_one_over_all_its_literals(tmp_path: Path) -> None:
    source = '''"""A docstring with words."""
name = f"one {value:,} of" \\
    f" {more}" + " and" + rest
other = f"a {', '.join(names) or 'no name at all'} here"
pattern = re.compile(r"two words\\s+(?:more)")
'''
    repository = of_module(tmp_path, source)
    assert list(code_texts(repository)) == [
        ("store/module.py:2", "one X of X andX"),
        ("store/module.py:4", "a X here"),
        ("store/module.py:4", "no name at all"),
    ]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ('raise SettingsError("a range needs two ends")', "the rule, not the violation: a range needs two ends"),
        ('raise FormatError(f"only {name} is read")', "the rule, not the violation: only X is read"),
        (
            'hint = "run `sparkhaven epochs list NS.T STREAM`"',
            "a hint without the real name: `sparkhaven epochs list NS.T STREAM`",
        ),
    ],
)
def test_what_breaks_a_rule_of_errors_is_seen(tmp_path: Path, source: str, fault: str) -> None:
    assert list(error_faults(of_module(tmp_path, source))) == [("store/module.py:1", fault)]


def test_a_long_hint_is_seen(tmp_path: Path) -> None:
    source = f'hint = (\n    "{"word " * 15}"\n    "{"word " * 11}; and more"\n)'
    ((place, text),) = code_texts(of_module(tmp_path, source))
    assert place == "store/module.py:2" and faults(text)[0].startswith("28 words")
