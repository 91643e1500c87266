"""A commit hook and `make check` format C alike."""

from __future__ import annotations

from tests.support.places import REPOSITORY


def test_the_hook_has_the_pinned_clang_format() -> None:
    pins = (REPOSITORY / "requirements" / "check.txt").read_text(encoding="utf-8").split()
    (pin,) = (pin for pin in pins if pin.startswith("clang-format=="))
    assert f'additional_dependencies: ["{pin}"]' in (REPOSITORY / ".pre-commit-config.yaml").read_text(encoding="utf-8")
