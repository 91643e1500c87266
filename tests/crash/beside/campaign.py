"""Every reading command beside a stream that commits, and beside maintenance: nothing that is whole is called damaged.

A stream of small files, one epoch each, with many locations, is ingested by a process of its own. Meanwhile commands
are called in turn, each from a fresh look at the disk. Then another process merges, truncates, rolls back and recovers
in a loop. Full size is ``python -m tests.crash.beside.campaign``: 1,000 epochs, 50 locations, 100 calls of each.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.commands import run, run_json

TABLE = "Beside.Rows"
DAYS = ("2024-01-01", "2024-01-02")
SCHEMA = """<Table namespace="Beside" name="Rows" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/><Column name="N" dataType="long"/>
  <Column name="Note" dataType="String" symbolTable="None"/><Column name="Source" dataType="String"/>
  <Column name="At" dataType="Instant"/>
</Table>
"""
STREAM = """name = "rows"
table = "Beside.Rows"
schema = "Beside.Rows.schema"
[feed]
type = "files"
path = "feed/*.json"
format = "json"
max_per_trigger = { files = 1 }
[partition]
internal = { column = "Source" }
value = { column = "At", zone = "UTC" }
max_past = "99999 d"
[commit]
durability = "fsync"
"""

COMMANDS: dict[str, tuple[str, ...]] = {
    "verify": ("verify", TABLE),
    "verify --deep": ("verify", TABLE, "--deep"),
    "verify of all": ("verify",),
    "doctor": ("doctor", TABLE),
    "stats": ("stats", TABLE),
    "tables": ("tables",),
    "read": ("read", TABLE, "--where", "N >= 0"),
    "read --tier all --out": ("read", TABLE, "--tier", "all", "--out", "{out}/read.parquet"),
    "sql": ("sql", f"select count(*), sum(N) from {TABLE}"),
    "export": ("export", TABLE, "--layout", "nested", "--out", "{out}/export"),
    "page": ("page", "--out", "{out}/page.html"),
    "merge --dry-run": ("merge", TABLE, "--date", DAYS[0], "--dry-run"),
}
WRONG = ("error", "wrong")  # of a finding of `verify`, of `doctor`


@dataclass
class Tally:
    """Calls by command, and those that reported something wrong, with what they said."""

    calls: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, int, str]] = field(default_factory=list)


def write_feed(base: Path, epochs: int, locations: int) -> Path:
    """A feed of ``epochs`` files with a row for each location; returns the stream file."""
    feed = base / "feed"
    feed.mkdir(parents=True)
    for epoch in range(epochs):
        rows = (
            {
                "Sym": f"s{epoch % 7}",
                "N": epoch,
                "Note": f"n{epoch}",
                "Source": f"i{source}",
                "At": f"{DAYS[source % 2]}T12:00:00Z",
            }
            for source in range(locations)
        )
        (feed / f"{epoch:05d}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (base / "Beside.Rows.schema").write_text(SCHEMA)
    (base / "rows.toml").write_text(STREAM)
    return base / "rows.toml"


def call(root: Path, out: Path, name: str, tally: Tally) -> None:
    """Calls one command; an exit code that is not 0 is noted with its errors.

    A rollback may take the pinned epoch of a reader away: the error says to open again, and that is done once.
    """
    words = [word.format(out=out) for word in COMMANDS[name]]
    code, value = run_json(root, *words)
    if (code, value.get("error", {}).get("type")) == (3, "SnapshotMovedError"):
        code, value = run_json(root, *words)
    tally.calls[name] += 1
    if code == 0:
        return
    findings = [each for each in value.get("findings", []) if each.get("severity", each.get("state")) in WRONG]
    tally.wrong.append((name, code, json.dumps(findings[:3] or value)[:2000]))


def beside(
    process: subprocess.Popen[bytes], root: Path, out: Path, names: Iterator[str], *, calls: int, tally: Tally
) -> None:
    """Calls the next commands of ``names`` while a process runs, ``calls`` of each at most."""
    before = tally.calls.copy()
    for name in names:
        number = tally.calls[name] - before[name]
        if number == calls or process.poll() is not None:
            return
        (out / f"{number}").mkdir(parents=True, exist_ok=True)
        call(root, out / f"{number}", name, tally)


def start(*words: str) -> subprocess.Popen[bytes]:
    """A process of this module."""
    command = [sys.executable, "-m", "tests.crash.beside.campaign", *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def ingest_all(root: Path, stream: Path) -> None:
    """The process that ingests."""
    result = run(root, "ingest", str(stream), "--once")
    assert result.exit_code == 0, result.output


def maintain(root: Path, stream: Path, first: int, rounds: int) -> None:
    """The process that ingests a little, merges, truncates, rolls back and recovers, in turn."""
    rng = random.Random(first + rounds)
    for number in range(first, first + rounds):
        for step in steps(root, stream, number, rng):
            step()


def steps(root: Path, stream: Path, number: int, rng: random.Random) -> Iterator[Callable[[], object]]:
    """One round of maintenance; no step of it is refused for what runs beside it."""

    def command(*words: str) -> Callable[[], object]:
        def ran() -> None:
            result = run(root, *words)
            assert result.exit_code == 0, (words, result.output)

        return ran

    feed = stream.parent / "feed"
    day = DAYS[number % 2]
    row = json.dumps({"Sym": "s", "N": number, "Note": "late", "Source": "i0", "At": f"{day}T13:00:00Z"})
    (feed / f"late-{number}.json").write_text(f"{row}\n" * rng.randint(1, 5))
    yield command("ingest", str(stream), "--once")
    if number % 3 == 0:
        state = json.loads(run(root, "epochs", "list", TABLE, "rows", "--json").stdout)
        kept = [each["epoch"] for each in state["epochs"]]
        yield command("epochs", "rollback", TABLE, "rows", "--to", str(kept[-2] if len(kept) > 1 else kept[-1]))
        yield command("ingest", str(stream), "--once")
    yield command("merge", TABLE, "--date", day, *(["--rewrite"] if number % 2 else []))
    yield command("recover")
    if number % 4 == 3:
        yield command("validate", TABLE, "--date", day)
        yield command("truncate", TABLE, "--date", day)


def campaign(base: Path, *, epochs: int, locations: int, calls: int, rounds: int, least: int = 0) -> Tally:
    """Both halves of the campaign, in a new directory ``base``; the second until there are ``least`` calls of each."""
    root, out, tally = base / "db", base / "out", Tally()
    stream, names = write_feed(base, epochs, locations), itertools.cycle(COMMANDS)
    run(root, "partitions", "add", "Beside", "0")
    _half(root, out / "ingest", names, ("ingest", str(root), str(stream)), calls=calls, tally=tally)
    for first in itertools.count(step=rounds):
        words = ("maintain", str(root), str(stream), str(first), str(rounds))
        _half(root, out / f"maintain-{first}", names, words, calls=calls, tally=tally)
        if all(tally.calls[name] >= least for name in COMMANDS):
            break
    return tally


def _half(root: Path, out: Path, names: Iterator[str], words: Sequence[str], *, calls: int, tally: Tally) -> None:
    process = start(*words)
    try:
        while process.poll() is None and not any((root / "Intraday").glob("Beside/Rows/*/*/Rows/table.size")):
            time.sleep(0.01)
        beside(process, root, out, names, calls=calls, tally=tally)
    finally:
        code = process.wait()
    assert code == 0, f"{words[0]} ended with {code}"


def main() -> None:
    """Runs the campaign, or is one of its processes."""
    if sys.argv[1:2] == ["ingest"]:
        return ingest_all(Path(sys.argv[2]), Path(sys.argv[3]))
    if sys.argv[1:2] == ["maintain"]:
        return maintain(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--locations", type=int, default=50)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=60)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as base:
        tally = campaign(
            Path(base) / "beside",
            epochs=chosen.epochs,
            locations=chosen.locations,
            calls=chosen.calls,
            rounds=chosen.rounds,
        )
    for name, count in tally.calls.items():
        print(f"{name}: {count} calls", flush=True)
    for name, code, said in tally.wrong:
        print(f"wrong: {name} ended with {code}: {said}")
    sys.exit(bool(tally.wrong))


if __name__ == "__main__":
    main()
