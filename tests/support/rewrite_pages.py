"""``python -m tests.support.rewrite_pages``: runs the pages that show sessions, puts what came out where it differs."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.support.console import Session, rewrite
from tests.support.pages import RUN_IN_ORDER
from tests.support.places import REPOSITORY


def main() -> None:
    """Says for each page how many commands gave something else."""
    with tempfile.TemporaryDirectory() as place:
        session = Session(Path(place) / "scratch")
        for name in RUN_IN_ORDER:
            print(f"{name}: {rewrite(session, REPOSITORY / name)} differ")


if __name__ == "__main__":
    main()
