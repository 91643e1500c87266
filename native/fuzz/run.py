"""Compiles the fuzzer with sanitizers and runs it on each scanner, with so many inputs each:
``python -m native.fuzz.run [--rounds N] [--seed N] [--targets json csv]``.

With clang: libFuzzer, guided by coverage. Else with gcc: the loop of ``fuzz.c``, guided by gcc's calls at each branch.
Both stop at the first byte read or written out of place, and at undefined behaviour.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ingest.formats.scan.layout import powers_of_five

HERE = Path(__file__).resolve().parent
TARGETS = ("json", "csv")
SANITIZED = ("-std=c11", "-g", "-O1", "-fno-sanitize-recover=all", "-fsanitize=address,undefined")


def command(scratch: Path, target: str) -> list[str] | None:
    """The call of the compiler that makes ``scratch``/fuzz; None where there is neither clang nor gcc."""
    table = ",".join(f"UINT64_C({word})" for word in powers_of_five().tolist())
    powers = scratch / "powers.c"
    powers.write_text(f"#include <stdint.h>\nuint64_t fuzz_powers[] = {{{table}}};\n", encoding="ascii")
    sources = [
        *map(str, sorted(HERE.parent.glob("*.c"))),
        str(HERE / "fuzz.c"),
        str(HERE / f"{target}_target.c"),
        str(powers),
    ]
    if shutil.which("clang"):
        return ["clang", *SANITIZED, "-fsanitize=fuzzer", "-DSH_LIBFUZZER", *sources, "-o", str(scratch / "fuzz")]
    if shutil.which("gcc"):
        guided = ("-fsanitize-coverage=trace-pc",)
        return ["gcc", *SANITIZED, *guided, *sources, "-o", str(scratch / "fuzz")]
    return None


def run(rounds: int, seed: int, scratch: Path, target: str) -> subprocess.CompletedProcess[str] | None:
    """Compiles and runs for one of ``TARGETS``; None where there is no compiler that can."""
    words = command(scratch, target)
    if words is None:
        return None
    subprocess.run(words, check=True)
    own = ["-runs=" + str(rounds), f"-seed={seed}"] if words[0] == "clang" else [str(rounds), str(seed)]
    return subprocess.run([str(scratch / "fuzz"), *own], capture_output=True, text=True, check=False)


def main() -> int:
    """Runs the fuzzer and shows what it says."""
    parser = argparse.ArgumentParser(description="Runs the fuzzer of the compiled core.")
    parser.add_argument("--rounds", type=int, default=5_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=TARGETS)
    given = parser.parse_args()
    failed = False
    for target in given.targets:
        with tempfile.TemporaryDirectory() as scratch:
            done = run(given.rounds, given.seed, Path(scratch), target)
        if done is None:
            print("needs clang or gcc with the address sanitizer: install gcc")
            return 2
        print(f"{target}: {done.stdout}{done.stderr}")
        failed = failed or done.returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
