"""Where `sparkhaven merge` runs: in this process for few rows, else in Spark, and what it says about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.jobs.session import spark_session
from sparkhaven.jobs.session.spark_or_local import LocalLimits, choose_for_merge
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.layout import Layout
from sparkhaven.writers.merge.plan.date_plan import plan_merge
from tests.support.commands import run, run_json
from tests.support.writers.merge_cases import DAY, TABLE
from tests.support.writers.merge_runs import history_bytes, make

NAME = str(TABLE)
HERE = "merges in this process, without Spark: "


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> Any:
        raise SettingsError("Spark would start here")

    monkeypatch.setattr(spark_session, "build_session", start)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)


def database(base: Path) -> Path:
    base.mkdir()
    made, _ = make(base, 40)
    made.log.close()
    return made.root


@pytest.mark.slow
def test_few_rows_are_merged_in_this_process_to_the_same_bytes(tmp_path: Path) -> None:
    root, other = database(tmp_path / "a"), database(tmp_path / "b")
    found = run(root, "merge", NAME, "--date", DAY, "--json")
    assert (found.exit_code, json.loads(found.stdout)["rows_out"]) == (0, 40)
    assert found.stderr.startswith(f"{HERE}40 rows to merge. Spark starts above 1,048,576\n")
    again = run(root, "merge", NAME, "--date", DAY)
    assert "nothing new" in again.stdout and f"{HERE}0 rows to merge" in again.stderr
    chosen = run(other, "merge", NAME, "--date", DAY, "--local")
    assert chosen.exit_code == 0 and chosen.stderr.startswith(f"{HERE}as --local says\n")
    layouts = [Layout(each) for each in (root, other)]
    assert history_bytes(layouts[0]) == history_bytes(layouts[1])


def test_spark_starts_for_many_rows_or_where_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = database(tmp_path / "a")
    asked = run(root, "merge", NAME, "--date", DAY, "--spark")
    assert asked.exit_code == 2 and asked.stderr.startswith("merges in Spark: as --spark says\n")
    assert "Spark would start here" in asked.stderr
    with monkeypatch.context() as submitted:
        submitted.setenv("PYSPARK_GATEWAY_PORT", "1")
        assert "merges in Spark: spark-submit has started it" in run(root, "merge", NAME, "--date", DAY).stderr
    many = run(root, "merge", NAME, "--date", DAY, limits=LocalLimits(merged_rows=39))
    assert many.exit_code == 2 and many.stderr.startswith("merges in Spark: more than 39 rows to merge\n")
    code, value = run_json(root, "merge", NAME, "--date", DAY, "--local", "--spark")
    assert (code, value["error"]["what"]) == (2, "--local and --spark exclude each other")
    assert run_json(root, "merge", NAME, "--date", DAY, "--dry-run")[1]["outcome"] == "planned"


def test_planning_ends_when_the_rows_are_too_many() -> None:
    few = iter([type("Date", (), {"rows_in": rows}) for rows in (4, 7, 1)])
    assert not choose_for_merge("auto", False, 0, few, 10).local  # type: ignore[arg-type]
    assert len(list(few)) == 1
    assert not choose_for_merge("auto", False, 11, few, 10).local


def test_a_date_that_was_never_merged_is_planned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, planned = database(tmp_path / "a"), list[bool]()

    def noted(*words: Any, dry_run: bool = False) -> Any:
        planned.append(dry_run)
        return plan_merge(*words, dry_run=dry_run)

    monkeypatch.setattr("sparkhaven.writers.merge.date_merges.plan_merge", noted)
    assert f"{HERE}40 rows to merge" in run(root, "merge", NAME, "--date", DAY).stderr
    assert planned == [False]
    assert f"{HERE}0 rows to merge" in run(root, "merge", NAME, "--date", DAY).stderr  # its record is looked at first
    assert planned == [False, True, False]
    assert f"{HERE}40 rows to merge" in run(root, "merge", NAME, "--date", DAY, "--rewrite").stderr
