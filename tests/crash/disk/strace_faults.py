"""System calls that fail, by strace: ``python -m tests.crash.disk.strace_faults [--every] [--seed N]``.

The kernel's answer is changed under a real writer process, not our own seam: ``strace -e inject`` lets the n-th call of
a kind fail. A first run tells which calls touch the table; then each round lets one of them fail. What was acknowledged
must be there, nothing twice, a sync that failed is not tried again on that file, and the next writer goes on.
Needs strace (a Debian package) and the right to trace; ``missing`` says what is not there.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.crash.kills.zombies import SECONDS, Ended, check, finish
from tests.support.places import REPOSITORY

SYNCS = ("fsync", "fdatasync")
ERRORS = {
    "write": ("EIO", "ENOSPC", "EINTR"),
    "pwrite64": ("EIO", "ENOSPC", "EINTR"),
    "openat": ("EIO", "ENOSPC", "EMFILE", "EINTR"),
    "rename": ("EIO", "ENOSPC"),
    "mkdir": ("EIO", "ENOSPC"),
    "ftruncate": ("EIO", "EINTR"),
    "unlink": ("EIO",),
    "flock": ("EIO", "ENOLCK"),
    **dict.fromkeys(SYNCS, ("EIO", "ENOSPC")),
}
NOT_MET = "not met"  # in place of an error: the run has gone another way than the first one
BATCHES = "7"  # with two before: enough for a compaction
_CALL = re.compile(r"^(?P<process>\d+) +(?P<call>\w+)\((?P<rest>.*)$")


@dataclass(frozen=True, slots=True)
class Site:
    """The ``nth`` call of a kind; ``path`` is what it touches, below the table's root. Syncs are known by path alone.

    Syncs run on threads of their own, whose calls have no order, and strace counts for each thread.
    """

    call: str
    path: str
    nth: int

    @property
    def kind(self) -> tuple[str, str]:
        """What sites have in common that differ in number, process or epoch only."""
        return self.call, re.sub(r"\d+", "#", self.path)


def missing() -> str:
    """Why calls cannot be made to fail here; nothing if they can."""
    if shutil.which("strace") is None:
        return "strace is not installed (Debian package strace)"
    tried = subprocess.run(
        ["strace", "-e", "inject=fsync:error=EIO", "true"], capture_output=True, text=True, check=False
    )
    return "" if tried.returncode == 0 else f"strace cannot trace: {tried.stderr.strip().splitlines()[-1]}"


def traced(root: Path, log: Path, *options: str) -> Ended:
    """The writer under strace."""
    strace = ["strace", "-f", "-qq", "-y", "-o", str(log), "-e", f"trace={','.join(ERRORS)}", *options]
    done = subprocess.run(
        [*strace, sys.executable, "-m", "tests.crash.spark.plain_job", str(root), "--batches", BATCHES],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"},
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def sites(root: Path, log: Path) -> Iterator[Site]:
    """The calls of a run that touch the table, as far as they can be found again in another run."""
    main, counts, seen = "", Counter[tuple[str, str]](), set[Site]()
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if (found := _CALL.match(line)) is None:
            continue
        process, call, rest = found["process"], found["call"], found["rest"]
        main = main or process
        counts[process, call] += 1
        if (path := _below(root, rest)) is None:
            continue
        if call in SYNCS:
            site = Site(call, path, 1)
            if "tmp-" in path or site in seen:  # the name holds a process number, which differs from run to run
                continue
            seen.add(site)
            yield site
        elif process == main:
            yield Site(call, path, counts[process, call])


def _below(root: Path, rest: str) -> str | None:
    found = re.search(rf"[<\"]{re.escape(str(root))}(/[^>\"]*)?[>\"]", rest)
    return None if found is None else found[1] or "/"


def chosen(found: list[Site], chance: random.Random) -> list[Site]:
    """One site of each kind."""
    by_kind: dict[tuple[str, str], list[Site]] = {}
    for site in found:
        by_kind.setdefault(site.kind, []).append(site)
    return [chance.choice(some) for some in by_kind.values()]


def fail(root: Path, before: Path | None, site: Site, error: str) -> bool:
    """One call fails; False if it was not met, since the run has gone another way. AssertionError for harm done."""
    if before is None:
        root.mkdir()
    else:
        shutil.copytree(before, root)
    held, log = check(root, 0), root.with_suffix(".trace")
    inject = ["-e", f"inject={site.call}:error={error}:when={site.nth}"]
    if site.call in SYNCS:
        inject += ["-P", str(root) + site.path.rstrip("/")]
    ended = traced(root, log, *inject)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    injected = [line for line in lines if "(INJECTED)" in line]
    if not any(_below(root, line) or site.call in SYNCS for line in injected):
        return False
    reported = "Error: " in ended.errors
    assert (ended.code == 0) != reported, f"other: exit code {ended.code}, {ended.errors[-2000:]}"
    assert check(root, ended.acknowledged) >= held, "lost: rows of before"
    if site.call in SYNCS:
        assert reported, "other: a sync failed, and no error says it"
        again = [line for line in lines if _CALL.match(line) and f" {site.call}(" in line and "INJECTED" not in line]
        assert not again, f"other: synced again after a failed sync: {again}"
    finish(root, max(held, ended.acknowledged))
    return True


def main(base: Path, *, every: bool, seed: int) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """Rounds by call and error, and how many of them went wrong. Half of them start with a new table.

    Each call fails once, with an error of chance: all errors at all call sites are the in-process faults' work.
    """
    chance, done, wrong = random.Random(seed), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    grown = base / "grown"
    grown.mkdir()
    job = [sys.executable, "-m", "tests.crash.spark.plain_job", str(grown), "--batches", "2"]
    subprocess.run(job, check=True, capture_output=True, cwd=REPOSITORY)
    for name, before in (("new", None), ("grown", grown)):
        root = base / f"plain-{name}"
        root.mkdir() if before is None else shutil.copytree(before, root)
        ended = traced(root, log := base / f"{name}.trace")
        assert ended.code == 0, ended
        found = list(sites(root, log))
        for number, site in enumerate(found if every else chosen(found, chance)):
            error = chance.choice(ERRORS[site.call])
            place = base / f"{name}-{number}"  # as long as the other names, and gone after the round
            try:
                done[site.call, error if fail(place, before, site, error) else NOT_MET] += 1
            except AssertionError as problem:
                done[site.call, error] += 1
                wrong[site.call, error] += 1
                print(f"{name} table, {site}, {error}: {problem}", flush=True)
            shutil.rmtree(place)
    return done, wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Lets system calls of a writer fail by strace.")
    parser.add_argument("--every", action="store_true", help="every call, not one of each kind")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if why := missing():
        print(f"no faults by strace here: {why}")
        sys.exit(0)
    with tempfile.TemporaryDirectory() as directory:
        met, bad = main(Path(directory), every=given.every, seed=given.seed)
    for (call, error), count in sorted(met.items()):
        print(f"{call:10} {error:8} {count:4}")
    print(f"faults {sum(count for (_, error), count in met.items() if error != NOT_MET)}, wrong {bad.total()}")
    sys.exit(bool(bad.total()))
