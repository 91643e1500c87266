"""Change fragments become a section of the changelog: ``python -m tools.docs.changelog VERSION [--date DAY]``.

A fragment is ``changes/<name>.<kind>.md``. Fragments are removed once the section is written.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("added", "changed", "fixed", "removed", "security")
NOT_FRAGMENTS = {"README.md"}
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*\.(\w+)\.md")
_SECTION = re.compile(r"^## ", re.MULTILINE)


def fragments(folder: Path) -> dict[Path, str]:
    """The kind of each fragment; ValueError names a file that is none."""
    kinds = {}
    for path in sorted(folder.iterdir()):
        if path.name in NOT_FRAGMENTS:
            continue
        match = _NAME.fullmatch(path.name)
        if match is None or match[1] not in KINDS:
            raise ValueError(f"{path}: a fragment is named <name>.<kind>.md, kind one of {', '.join(KINDS)}")
        kinds[path] = match[1]
    return kinds


def section(version: str, day: str, kinds: Mapping[Path, str]) -> str:
    """The changes as lists below a heading, in the order of ``KINDS``."""
    parts = [f"## {version} ({day})"]
    for kind in KINDS:
        items = [_item(path.read_text(encoding="utf-8")) for path, of in kinds.items() if of == kind]
        if items:
            parts += [f"### {kind.capitalize()}", "\n".join(items)]
    return "\n\n".join(parts) + "\n\n"


def with_section(changelog: str, text: str) -> str:
    """The changelog with a new section above all others."""
    first = _SECTION.search(changelog)
    start = first.start() if first else len(changelog)
    return changelog[:start] + text + changelog[start:]


def _item(text: str) -> str:
    return "- " + "\n  ".join(text.strip().splitlines())


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """0: written; 2: nothing to write, or a file of another name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    options = parser.parse_args(arguments)
    try:
        kinds = fragments(root / "changes")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if not kinds:
        print("there are no fragments in changes/", file=sys.stderr)
        return 2
    changelog = root / "CHANGELOG.md"
    text = with_section(changelog.read_text(encoding="utf-8"), section(options.version, options.date, kinds))
    changelog.write_text(text, encoding="utf-8")
    for path in kinds:
        path.unlink()
    print(f"{len(kinds)} changes in CHANGELOG.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
