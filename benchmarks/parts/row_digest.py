"""What the digest of rows costs a merge: processor time of one worker, without and with it.

    python -m benchmarks.parts.row_digest [--rows 4000000] [--rounds 5]

The rows of ``merge_speed`` are merged in turn as a merge does it, and with the digests of columns alone: numbers are
then hashed where their columns are read back, and no rows are. The best round of each counts. Goal: 3 %.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.merge_speed import BY_TIME, make, ours
from sparkhaven.store.merges.merge_run import Proof
from sparkhaven.store.native.digests import survey_entries
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.write import location_check, phases

MEMORY = 1 << 30


@contextmanager
def columns_alone() -> Iterator[None]:
    """A merge without the digest of rows; its proof is not asked, as nothing adds the digests of columns to it."""
    hashed = partial(_with_digest, survey_entries)
    with (
        mock.patch.object(phases, "_row_tasks", lambda _: []),
        mock.patch.object(location_check, "survey_entries", hashed),
        mock.patch.object(Proof, "holds", True),
    ):
        yield


def _with_digest(survey: Callable[..., Any], *arguments: Any, digest: bool) -> Any:
    return survey(*arguments, digest=not digest)


def main() -> int:
    """0: within the goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", type=Path, default=None)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.dir) as base, LocalExecutor(1) as executor:
        make(Path(base), given.rows)
        run = partial(ours, root=Path(base) / "db", executor=executor, sort=BY_TIME, memory=MEMORY)
        whole, bare = [], []
        for _ in range(given.rounds):
            whole.append(run("with the digest of rows").cpu)
            with columns_alone():
                bare.append(run("columns alone").cpu)
    share = 100 * (min(whole) / min(bare) - 1)
    print(f"{min(bare):.3f} s, with the digest of rows {min(whole):.3f} s: {share:.1f} % more")
    return int(share > 3)


if __name__ == "__main__":
    raise SystemExit(main())
