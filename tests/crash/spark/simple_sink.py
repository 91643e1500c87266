"""A sink without Spark, to try the power cuts: ``python -m tests.crash.spark.simple_sink SINK FEED PLACE``.

Speaks as ``tests.crash.spark.sink_job`` does. It notes which files it has taken, durably; ``synced`` syncs their rows
before that, ``forgetful`` does not.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def append(path: Path, text: str, *, sync: bool) -> None:
    """Adds to a file; with ``sync`` it is on the disk afterwards, with its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="ascii") as file:
        file.write(text)
        file.flush()
        if sync:
            os.fsync(file.fileno())
    for parent in (path.parent, path.parent.parent, path.parent.parent.parent):
        if sync:
            descriptor = os.open(parent, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)


def read(place: Path) -> str:
    """What a reader sees, as JSON."""
    rows = place / "table" / "rows"
    words = rows.read_text(encoding="ascii").split() if rows.exists() else []
    if not all(word.isdigit() for word in words):
        return json.dumps({"error": "not a number"})
    return json.dumps({"numbers": sorted(map(int, words)), "torn": 0})


def take(feed: Path, place: Path, *, sync: bool) -> None:
    """Files that were not taken, in their order."""
    note = place / "table" / "taken"
    taken = note.read_text(encoding="ascii").split() if note.exists() else []
    for path in sorted(feed.iterdir()):
        if path.name not in taken:
            numbers = [json.loads(line)["N"] for line in path.read_text(encoding="utf-8").splitlines()]
            append(place / "table" / "rows", "".join(f"{number}\n" for number in numbers), sync=sync)
            append(note, f"{path.name}\n", sync=True)
            print(f"acknowledged {numbers[-1] + 1}", flush=True)


if __name__ == "__main__":
    sink, feed, place = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    print(f"before {read(place)}", flush=True)
    take(feed, place, sync=sink == "synced")
    print(f"after {read(place)}", flush=True)
    if sys.stdin.readline():
        take(feed, place, sync=sink == "synced")
