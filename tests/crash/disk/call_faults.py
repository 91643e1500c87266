"""Every call of every call site fails once: ``python -m tests.crash.disk.call_faults [--every] [--only TEXT]``.

Tells the whole life of a table with one call failing. Then: what was acknowledged is there, once, and whole, before
anything is mended; nobody synced again what could not be synced; the next start goes through, on the same machine; and
when the power goes after that, a disk that has kept nothing but what was synced holds exactly the input.
Without ``--every`` one random call and error of each site is tried.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from sparkhaven.store.errors import SparkhavenError
from tests.crash.disk.call_sites import CallSiteFs, Fault, Site, faults_of
from tests.support.streams.stream_story import Groups
from tests.support.streams.whole_story import Watch, check_end, check_seen, live, reported, write_feed


def calls_of_a_life(root: Path, batches: list[Groups]) -> list[Site]:
    """The sites in the order of a life that goes well."""
    root.mkdir()
    fs = CallSiteFs(root)
    live(fs, root, batches, Watch(), back=True)
    check_end(root)
    return fs.calls


def survive(root: Path, batches: list[Groups], fault: Fault) -> None:
    """A life with one fault, the next start, a power cut. AssertionError when something is not as it must be."""
    root.mkdir()
    fs, watch = CallSiteFs(root, fault), Watch()
    try:
        live(fs, root, batches, watch, back=True)
    except (SparkhavenError, OSError) as error:
        assert reported(error), f"says not enough: {error!r}"
    assert fs.failed == 1, "the fault was not met"
    check_seen(root, watch)
    fs.fault = None
    live(fs, root, batches, watch, back=False)
    check_end(root)
    assert not fs.retried, f"synced again after a failed sync: {fs.retried}"
    fs.cut(0)
    check_end(root)


def chosen(faults: list[Fault], seed: int) -> list[Fault]:
    """One fault of each site."""
    chance = random.Random(seed)
    by_site: dict[Site, list[Fault]] = {}
    for fault in faults:
        by_site.setdefault(fault.site, []).append(fault)
    return [chance.choice(some) for _, some in sorted(by_site.items())]


def try_all(base: Path, batches: list[Groups], faults: list[Fault]) -> list[str]:
    """What went wrong, one text a fault."""
    wrong = []
    for number, fault in enumerate(faults):
        root = base / f"db{number}"
        try:
            survive(root, batches, fault)
        except Exception as error:
            where = traceback.format_exception(error)[-4:] if not isinstance(error, AssertionError) else ()
            wrong.append(f"{fault}: {type(error).__name__}: {error}\n{''.join(where)}")
            print(wrong[-1], flush=True)
        shutil.rmtree(root)
    return wrong


def main(base: Path, *, every: bool, only: str, seed: int) -> int:
    """All rounds; 0 if every one of them ended well."""
    batches = write_feed(base / "feed")
    calls = calls_of_a_life(base / "plain", batches)
    faults = [fault for fault in faults_of(calls) if only in str(fault)]
    if not every:
        faults = chosen(faults, seed)
    wrong = try_all(base, batches, faults)
    print(f"call sites {len(set(calls))}, calls {len(calls)}, faults {len(faults)}, wrong {len(wrong)}")
    return bool(wrong)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Lets each file system call of the life of a table fail once.")
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--only", default="", help="faults whose description holds this text")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        code = main(Path(directory), every=options.every, only=options.only, seed=options.seed)
    sys.exit(code)
