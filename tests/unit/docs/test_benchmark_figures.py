"""What benchmarks make of their seconds: the figures, by the names under which pages take them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import live, merge_speed
from benchmarks.figures import NEW
from benchmarks.parts import deep
from benchmarks.peers import fastest, synced
from tools.docs.figures import figures


def test_the_fastest_way_of_a_peer_counts_and_one_that_did_not_run_is_none() -> None:
    seconds = {"delta, zstd": 3.0, "delta, tuned": 2.0, "parquet, tuned": 1.0, "TLS, delta, tuned": 0.5}
    assert fastest(seconds, "delta") == 2.0
    assert fastest(seconds, "TLS, delta") == 0.5
    assert fastest(seconds, "json") is None


def test_a_merge_is_held_against_the_fastest_codec_warm_and_cold() -> None:
    best = {"ours, sorted": 2.0, "duckdb, sorted, snappy": 9.0, "duckdb, sorted, zstd": 6.0, "spark, sorted": 20.0}
    cold = {"ours, cold": 4.0, "duckdb, cold, zstd": 8.0}
    assert merge_speed.figures_of(best | cold) == {
        "merge.local": 2.0,
        "merge.duckdb": 6.0,
        "merge.sort_in_spark": 20.0,
        "merge.local.duckdb.ratio": 3.0,
        "merge.local.sort_in_spark.ratio": 10.0,
        "merge.cold": 4.0,
        "merge.cold.duckdb": 8.0,
        "merge.cold.duckdb.ratio": 2.0,
    }
    assert "merge.cold" not in merge_speed.figures_of(best)


def test_the_slowest_kind_of_number_counts() -> None:
    speeds = {f"scan of {name}": speed for name, speed in zip("LIDST", (3.0, 1.0, 2.0, 5.0, 4.0), strict=True)}
    assert deep.figures_of(speeds) == {"deep.numbers.warm": 1.0, "deep.symbols.warm": 5.0, "deep.texts.warm": 4.0}


def test_scans_by_the_engine_are_held_against_its_faster_way() -> None:
    scans = {"ours": [9.0, 2.0, 2.0], "parquet": [9.0, 1.0, 1.0], "growing": [9.0, 3.0, 3.0]}
    assert live.figures_of(scans, 2_000_000, "live.small") == {
        "live.small.sums": 3.0,
        "live.small.parquet": 6.0,
        "live.small.ratio": 0.5,
    }


def test_every_figure_of_a_benchmark_has_a_unit() -> None:
    recorded = {*merge_speed.FIGURES, "live.small.ratio", *deep.figures_of(dict.fromkeys(_scans(), 1.0))}
    assert recorded <= figures().keys() | NEW.keys()


def test_what_a_peer_has_written_is_synced(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "file").write_bytes(b"rows")
    assert synced(tmp_path) > 0 and synced(tmp_path / "part" / "file") > 0
    with pytest.raises(FileNotFoundError):
        synced(tmp_path / "none")


def _scans() -> list[str]:
    return [f"scan of {name}{rest}" for name in deep.NAMES for rest in ("", ", first")]
