"""One parser under Atheris: ``python -m tests.support.fuzzing.target NAME LIBFUZZER_OPTIONS``; ``run`` calls it."""

from __future__ import annotations

import sys
import time

import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]

with atheris.instrument_imports(include=["sparkhaven.store", "sparkhaven.ingest", "sparkhaven.jobs"]):
    from tests.support.fuzzing.parsers import parsers, try_one

SECONDS = 1  # of the processor, for one input


def main() -> None:
    name = sys.argv.pop(1)
    for seed in parsers()[name].seeds:  # imports and caches take time once
        try_one(name, seed)

    def one(data: bytes) -> None:
        begun = time.thread_time()
        try_one(name, data)
        took = time.thread_time() - begun
        if took > SECONDS:
            raise TimeoutError(f"{took:.1f} s")

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


main()
