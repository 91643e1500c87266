"""Compiles the fuzzer with sanitizers and runs it on each part of the core:
``python -m native.fuzz.run [--rounds N | --total N] [--seed N] [--targets json csv ...]``.

With clang: libFuzzer, guided by coverage. Else with gcc: the loop of ``fuzz.c``, guided by gcc's calls at each branch.
Both stop at the first byte read or written out of place, at undefined behaviour, and where a target says that a result
is wrong. The last line is the verdict. Ends with 0: all inputs passed; 1: one did not; 2: usage, or no compiler.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from native.build import SOURCES, source_files
from sparkhaven.store.native.json_lists import powers_of_five

HERE = Path(__file__).resolve().parent
TARGETS = tuple(sorted(path.stem.removesuffix("_target") for path in HERE.glob("*_target.c")))
SANITIZED = ("-std=c11", "-g1", "-fno-sanitize-recover=all", "-fsanitize=address,undefined", "-I", str(SOURCES))
QUICK, SMALL = "-O1", "-O0"  # how inputs go through quickly, and how the core compiles quickly


def libfuzzer(scratch: Path) -> str | None:
    """A clang with libFuzzer, which Debian packages apart from it: the newest, also one with a version in its name."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    names = sorted({path.name for folder in folders for path in folder.glob("clang-[0-9][0-9]")}, reverse=True)
    trial = scratch / "trial.c"
    trial.write_text("int LLVMFuzzerTestOneInput(void) { return 0; }\n", encoding="ascii")
    for name in filter(shutil.which, ["clang", *names]):
        words = [name, "-fsanitize=fuzzer,address,undefined", str(trial), "-o", str(scratch / "trial")]
        if subprocess.run(words, capture_output=True, check=False).returncode == 0:
            return name
    return None


def compiler(scratch: Path, level: str = QUICK) -> list[str] | None:
    """The start of a call of the compiler; None where there is neither clang nor gcc."""
    if (clang := libfuzzer(scratch)) is not None:
        return [clang, *SANITIZED, level, "-fsanitize=fuzzer", "-DSH_LIBFUZZER"]
    return ["gcc", *SANITIZED, level, "-fsanitize-coverage=trace-pc"] if shutil.which("gcc") else None


def core_objects(scratch: Path, compile_: Sequence[str]) -> list[str]:
    """The core, compiled once for all targets that have this ``scratch``; with the loop, and the powers of five."""
    core = scratch / "core"
    if not core.exists():
        making = scratch / "core.new"
        making.mkdir()
        table = ",".join(f"UINT64_C({word})" for word in powers_of_five().tolist())
        powers = making / "powers.c"
        powers.write_text(f"#include <stdint.h>\nuint64_t fuzz_powers[] = {{{table}}};\n", encoding="ascii")
        sources = [*map(str, source_files("*.c")), str(HERE / "fuzz.c"), str(powers)]
        subprocess.run([*compile_, "-c", *sources], cwd=making, check=True)
        making.rename(core)
    return [str(path) for path in sorted(core.glob("*.o"))]


def made(scratch: Path, target: str, rounds: int, seed: int, level: str = QUICK) -> list[str] | None:
    """Compiles one of ``TARGETS``; the call that runs it, None where there is no compiler that can."""
    compile_ = compiler(scratch, level)
    if compile_ is None:
        return None
    program = scratch / f"fuzz-{target}"
    objects = core_objects(scratch, compile_)
    subprocess.run([*compile_, *objects, str(HERE / f"{target}_target.c"), "-o", str(program)], check=True)
    if compile_[0] == "gcc":
        return [str(program), str(rounds), str(seed)]
    prefix = f"{tempfile.gettempdir()}/sparkhaven-{target}-"  # where an input that fails is written
    return [str(program), f"-runs={rounds}", f"-seed={seed}", f"-artifact_prefix={prefix}"]


def run(rounds: int, seed: int, scratch: Path, target: str) -> subprocess.CompletedProcess[str] | None:
    """Runs one of ``TARGETS`` on few inputs, with what it says; None where there is no compiler that can make it."""
    words = made(scratch, target, rounds, seed, SMALL)
    if words is None:
        return None
    return subprocess.run(words, capture_output=True, text=True, check=False)


def main(words: Sequence[str] | None = None) -> int:
    """Runs the fuzzer and shows what it says, then how quick each target was, and the verdict."""
    parser = argparse.ArgumentParser(description="Runs the fuzzer of the compiled core.")
    number = parser.add_mutually_exclusive_group()
    number.add_argument("--rounds", type=_positive, default=5_000_000, help="inputs of each target")
    number.add_argument("--total", type=_positive, help="inputs of all targets together, in equal parts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=TARGETS)
    args = parser.parse_args(words)
    rounds = -(-args.total // len(args.targets)) if args.total else args.rounds
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        for target in args.targets:
            print(f"{target}: {rounds:,} inputs", flush=True)
            call = made(Path(scratch), target, rounds, args.seed)
            if call is None:
                print("needs clang or gcc with the address sanitizer: install gcc")
                return 2
            since = time.monotonic()
            code = subprocess.run(call, check=False).returncode
            seconds = time.monotonic() - since
            if code:
                failed.append(target)
                print(f"{target}: FAILED after {seconds:.0f} s, with code {code}", flush=True)
            else:
                print(f"{target}: passed in {seconds:.0f} s, {rounds / seconds:,.0f} inputs a second", flush=True)
    if failed:
        again = f"python -m native.fuzz.run --rounds {rounds} --seed {args.seed} --targets {' '.join(failed)}"
        print(f"fuzz: FAILED: {', '.join(failed)}. The same inputs again: {again}")
        return 1
    print(f"fuzz: passed: {rounds * len(args.targets):,} inputs, {rounds:,} of each of {', '.join(args.targets)}")
    return 0


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
