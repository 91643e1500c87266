"""A sample of `make fuzz-decoders`, and that it sees a guard that is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sparkhaven.ingest.values import typed_rows
from tests.support.examples import share_of
from tests.support.ingest.fuzz_decoders import fuzzers, run


@pytest.mark.slow
def test_a_sample_of_every_decoder(tmp_path: Path) -> None:
    tallies = run(share_of(600, 300), 7)
    assert set(tallies) == set(fuzzers(tmp_path))
    assert {name: dict(tally.defects) for name, tally in tallies.items() if tally.defects} == {}
    assert all(tally.rows for tally in tallies.values()) and all(
        tally.bad or tally.refused for tally in tallies.values()
    )
    assert {name for name, tally in tallies.items() if tally.guarded} == {
        "json", "json-frame", "csv", "avro", "avro-frame", "protobuf", "protobuf-frame"
    }  # fmt: skip


def test_without_the_guard_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed_rows, "ENVIRONMENT", (Exception,))
    assert "ZoneInfoNotFoundError" in str(run(200, 7, ["json"])["json"].defects)


@pytest.mark.slow
def test_its_verdict() -> None:
    words = ["--inputs", "200", "--only", "raw,json"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.ingest.fuzz_decoders", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "fuzz-decoders: passed: 2 decoders, 200 inputs each"
