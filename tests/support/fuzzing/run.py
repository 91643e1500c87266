"""Every parser against inputs that coverage guides: ``python -m tests.support.fuzzing.run --inputs N --only tbl,tlmi``.

Atheris mutates the seeds and keeps what reaches new lines. An exception that is not ours, an input that takes more than
a second, and more than 2 GiB of memory end the run with 1; the input is kept and named. The last line is the verdict.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tests.support.fuzzing.parsers import parsers

SECONDS = 1  # of the processor, for one input; the machine may be busy
PATIENCE = 30
MEGABYTES = 2048
LONGEST = 4096


def main(words: Sequence[str] | None = None) -> int:
    """Runs each parser in a process of its own; 0: all inputs passed, 1: one did not, 2: usage, or no Atheris."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--inputs", type=int, default=200_000, help="inputs for each parser")
    reader.add_argument("--only", default="", help="names of parsers, separated by commas")
    reader.add_argument("--one", help=argparse.SUPPRESS)
    options = reader.parse_args(words)
    names = [name for name in options.only.split(",") if name] or list(parsers())
    if unknown := [name for name in names if name not in parsers()]:
        reader.error(f"no such parser: {', '.join(unknown)}. There are {', '.join(parsers())}")
    if find_spec("atheris") is None:
        print("atheris is not installed: pip install -r requirements/fuzz.txt", file=sys.stderr)
        return 2
    failed = [name for name in names if not _tried(name, options.inputs)]
    total = f"{len(names)} parsers, {options.inputs:,} inputs each"
    print(f"failed: {', '.join(failed)} ({total})" if failed else f"passed: {total}")
    return 1 if failed else 0


def _tried(name: str, inputs: int) -> bool:
    """One parser, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-") as scratch:
        corpus = Path(scratch, "corpus")
        corpus.mkdir()
        for number, seed in enumerate(parsers()[name].seeds):
            corpus.joinpath(f"seed-{number}").write_bytes(seed)
        limits = (f"-runs={inputs}", f"-timeout={PATIENCE}", f"-rss_limit_mb={MEGABYTES}", f"-max_len={LONGEST}")
        command = [sys.executable, "-m", "tests.support.fuzzing.target", name, *limits]
        command += [f"-artifact_prefix={scratch}/", "-print_final_stats=0", "-verbosity=0", str(corpus)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        kept = [path for path in Path(scratch).iterdir() if path.is_file()]
        if run.returncode == 0:
            print(f"{name}: {inputs:,} inputs, {len(list(corpus.iterdir()))} of them kept for new lines", flush=True)
            return True
        print(f"{name}: failed\n{run.stderr[-4000:]}")
        for path in kept:
            print(f"input: {path.read_bytes().hex()}")
        return False


if __name__ == "__main__":
    sys.exit(main())
