"""What is said of workers that cannot do our work: which machine, which interpreter, what is missing."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sparkhaven.jobs.session.spark_session import import_root
from sparkhaven.store.errors import EXIT_RETRY, EXIT_USAGE, CommitError, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native import library
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.scratch import make_scratch
from sparkhaven.writers.batch.task import Task, run_task
from sparkhaven.writers.spark.spark_tasks import lacks_package
from sparkhaven.writers.spark.workers import (
    COMPARED,
    Worker,
    _question,
    cannot_run,
    differences,
    installed,
    require_capable,
)
from sparkhaven.writers.task import SplitNotes
from tests.support.streams.stream_kit import open_log, put_file, record, target_of

FS = Fs()
GOOD = Worker("one", "/usr/bin/python3", "3.11.7", (), True)
FAILED = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task 0.3 in
stage 0.0 (TID 7) (10.0.0.7 executor 1): org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1, in main
ModuleNotFoundError: No module named 'numpy'
"""


def test_good_workers_pass(tmp_path: Path) -> None:
    require_capable(tmp_path, [GOOD, GOOD])


def test_missing_packages_are_named_with_interpreter_and_host(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        require_capable(tmp_path, [GOOD, Worker("two", "/opt/python3", "3.11.2", ("numpy", "writers"), True)])
    reported = str(caught.value)
    assert "/opt/python3 on two" in reported and "without numpy, writers" in reported and sys.executable in reported
    assert "PYSPARK_PYTHON" in reported and caught.value.exit_code == EXIT_USAGE


def test_a_worker_that_does_not_see_the_root_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommitError) as caught:
        require_capable(tmp_path, [GOOD, Worker("two", "/usr/bin/python3", "3.11.7", (), False)])
    reported = str(caught.value)
    assert f"{tmp_path} on two" in reported and "mount" in reported and caught.value.exit_code == EXIT_RETRY


HERE = ("0.1.0", "2.4.6", "26.0.1", "3.5.0", "1f0e9a8b7c6d")


def answer(*versions: str | None, clock: float = 100.0) -> Worker:
    return Worker("two", "/usr/bin/python3", "3.11.7", (), True, 7, versions, clock)


def test_equal_versions_and_clocks_are_not_mentioned() -> None:
    assert len(HERE) == len(COMPARED)
    assert list(differences([answer(*HERE), answer(None, *HERE[1:])], HERE, 99.0, 101.0)) == []


def test_another_version_of_a_package_is_reported_and_another_sparkhaven_is_refused() -> None:
    (reported,) = differences([answer("0.1.0", "2.4.6", "25.0.0", *HERE[3:])], HERE, 99.0, 101.0)
    assert (
        "another version of pyarrow" in str(reported)
        and "pyarrow 25.0.0" in str(reported)
        and "on two" in str(reported)
    )
    with pytest.raises(SettingsError, match="another version of sparkhaven"):
        list(differences([answer("0.0.9", *HERE[1:])], HERE, 99.0, 101.0))


def test_a_worker_without_the_compiled_core_is_refused_and_another_core_is_reported() -> None:
    with pytest.raises(SettingsError, match="cannot use the compiled core") as refused:
        list(differences([answer(*HERE[:4], "none")], HERE, 99.0, 101.0))
    assert "on two" in str(refused.value.where)
    (reported,) = differences([answer(*HERE[:4], "0123456789ab")], HERE, 99.0, 101.0)
    assert "another version of the compiled core" in str(reported)


def test_a_worker_answers_for_its_compiled_core_and_for_every_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "marker").write_bytes(b"here")
    (found,) = _question(str(tmp_path / "marker"), b"here")([1])
    worker = Worker(*found)
    assert (worker.sees, worker.missing, worker.versions) == (True, (), installed())
    assert re.fullmatch("[0-9a-f]{12}", str(worker.versions[-1]))
    monkeypatch.setattr(library, "file_name", lambda _: "core-none.so")
    library.core.cache_clear()
    (found,) = _question(str(tmp_path / "marker"), b"there")([1])
    worker = Worker(*found)
    library.core.cache_clear()
    assert (worker.sees, worker.versions[-1]) == (False, "none")


@pytest.mark.parametrize(("clock", "words"), [(90.0, "9.0 seconds behind"), (140.5, "39.5 seconds ahead")])
def test_a_clock_that_differs_is_reported(clock: float, words: str) -> None:
    (reported,) = differences([answer(*HERE, clock=clock)], HERE, 99.0, 101.0)
    assert words in str(reported) and reported.where == "two"


def test_a_task_on_a_machine_without_the_root_says_so(tmp_path: Path) -> None:
    one = put_file(tmp_path / "feed", "1", [record(1)], 1)
    with open_log(FS, tmp_path / "db") as log:
        target = target_of(tmp_path / "db", log)
        make_scratch(FS, target.scratch("1-0"))
    (tmp_path / "db").rename(tmp_path / "unmounted")

    def decode(split: object, notes: SplitNotes) -> list[object]:
        raise AssertionError("nothing is read")

    result = run_task(FS, WorkerCache(), target, decode, Task(0, 1, "1-0", [one]))  # type: ignore[arg-type]
    assert isinstance(result.error, CommitError)
    assert f"{tmp_path / 'db'} on {socket.gethostname()}" in str(result.error)


def test_errors_of_spark_are_put_into_words() -> None:
    reported = str(lacks_package(RuntimeError(FAILED)))
    assert "10.0.0.7" in reported and "No module named 'numpy'" in reported and "PYSPARK_PYTHON" in reported
    assert lacks_package(RuntimeError(FAILED.replace("ModuleNotFoundError", "ValueError"))) is None
    context = SimpleNamespace(pythonExec="/nowhere/python")
    started = RuntimeError('(TID 3) (10.0.0.9 executor 0): java.io.IOException: Cannot run program "/nowhere/python"')
    reported = str(cannot_run(context, started))
    assert "/nowhere/python on 10.0.0.9" in reported and "Cannot run program" in reported


@pytest.mark.parametrize("entry", ["import_dates", "ingest_stream", "merge_dates", "rewrite_dates"])
def test_a_driver_without_packages_says_what_it_lacks(entry: str) -> None:
    program = [sys.executable, "-S", str(import_root() / "jobs" / f"{entry}.py")]

    def reported(path: str) -> tuple[int, str]:
        done = subprocess.run(program, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    code, words = reported("")
    assert code == 1 and "No module named 'sparkhaven'" in words and "--py-files" in words
    code, words = reported(str(import_root()))
    assert code == EXIT_USAGE and sys.executable in words and "PYSPARK_PYTHON" in words and "Traceback" not in words
