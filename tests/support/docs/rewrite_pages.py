"""``python -m tests.support.docs.rewrite_pages``: runs the pages that show sessions and corrects their output."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tests.support.docs.console import Session, rewrite
from tests.support.docs.pages import RUN_ALONE, RUN_IN_ORDER
from tests.support.places import REPOSITORY


def main() -> None:
    """Says for each page how many commands gave something else."""
    with tempfile.TemporaryDirectory() as place:
        session = Session(Path(place) / "scratch")
        for name in RUN_IN_ORDER:
            print(f"{name}: {rewrite(session, REPOSITORY / name)} differ")
        for name in RUN_ALONE:
            alone = shutil.copytree(REPOSITORY / "examples/trades", Path(place) / Path(name).stem)
            print(f"{name}: {rewrite(Session(alone), REPOSITORY / name)} differ")


if __name__ == "__main__":
    main()
