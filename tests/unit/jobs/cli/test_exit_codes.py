"""The same cause ends every command with the same code, as docs/reference/exit-codes.md says."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from sparkhaven.ingest.values.typed_rows import unexpected
from sparkhaven.jobs.cli.context import CliContext, exit_code
from sparkhaven.jobs.streams.stream_run import is_retryable
from sparkhaven.readers.sql.scan import refusal
from sparkhaven.store.errors import NO_THREAD, RetryableStorageError, SettingsError
from sparkhaven.store.layout import Layout
from sparkhaven.store.merges.merge_records import lock_table
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from tests.crash.beside.campaign import write_feed
from tests.support.commands import run_json
from tests.support.disks.model_fs import QuickFs
from tests.support.places import REPOSITORY
from tests.support.writers.merge_cases import DAY, TABLE
from tests.support.writers.merge_runs import FS, make

NAME = str(TABLE)
OUT = "--layout", "nested", "--out", "{out}"
OF_DATES: dict[str, tuple[str, ...]] = {
    "merge": ("merge", NAME, "--local", "--dates"),
    "merge --dry-run": ("merge", NAME, "--dry-run", "--dates"),
    "merge --rewrite": ("merge", NAME, "--local", "--rewrite", "--dates"),
    "validate": ("validate", NAME, "--dates"),
    "truncate": ("truncate", NAME, "--dates"),
    "delete": ("delete", NAME, "--dates"),
    "export": ("export", NAME, *OUT, "--dates"),
}
CAUSES = {
    "a text that is no date, like `yesterday` or `2026-13-45`": ("yesterday", "2026-13-45", "2026-1-1"),
    "a date that the table does not have": ("2030-01-01", "2030-01-01..2030-02-01"),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("codes")
    db, _ = make(base, 12, partitions=1)
    db.log.close()
    return base


def documented(cause: str) -> int:
    text = (REPOSITORY / "docs/reference/exit-codes.md").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {cause} |")]
    return int(line.split("|")[2])


@pytest.mark.parametrize("name", OF_DATES)
@pytest.mark.parametrize("merged", [False, True], ids=["intraday", "merged"])
def test_a_wrong_date(root: Path, tmp_path: Path, name: str, merged: bool) -> None:
    if merged:
        run_json(root, "merge", NAME, "--date", DAY, "--local")
    words = [word.format(out=tmp_path / "out") for word in OF_DATES[name]]
    for cause, dates in CAUSES.items():
        for date in dates:
            code, value = run_json(root, *words, date)
            assert code == documented(cause), (date, value)
            error = value["error"]
            assert (error["exit_code"], error["retryable"]) == (2, False)
            assert ("malformed" in error["what"]) == ("no date" in cause), (date, error)


@pytest.mark.parametrize(
    "words",
    [
        ("merge", "No.Table", "--date", DAY),
        ("validate", "No.Table", "--date", DAY),
        ("truncate", "No.Table", "--date", DAY),
        ("delete", "No.Table", "--date", DAY),
        ("read", "No.Table"),
        ("stats", "No.Table"),
        ("verify", "No.Table"),
        ("recover", "No.Table"),
        ("clean", "No.Table"),
        ("epochs", "list", "No.Table", "rows"),
        ("sql", "select 1 from No.Table"),
        ("export", "No.Table", "--layout", "nested", "--out", "/tmp/nowhere"),
        ("quarantine", "list", "No.Table", "rows"),
    ],
    ids=" ".join,
)
def test_no_such_table(root: Path, words: tuple[str, ...]) -> None:
    code, value = run_json(root, *words)
    assert (code, value["error"]["retryable"]) == (documented("no such table"), False), value


@pytest.mark.parametrize("words", [("epochs", "list"), ("epochs", "rollback"), ("recover",)], ids=" ".join)
def test_no_such_stream(root: Path, words: tuple[str, ...]) -> None:
    to = ("--to", "1") if "rollback" in words else ()
    code, _ = run_json(root, *words, NAME, "nobody", *to)
    assert code == documented("no such stream")


@pytest.mark.parametrize("command", ["merge", "truncate", "delete"])
def test_a_lock_that_is_held(root: Path, command: str) -> None:
    local = ("--local",) if command == "merge" else ()
    run_json(root, "merge", NAME, "--date", DAY, "--local")
    run_json(root, "validate", NAME, "--date", DAY)
    with lock_table(TablePlace(FS, Layout(root), TABLE)):
        code, value = run_json(root, command, NAME, "--date", DAY, *local)
    assert (code, value["error"]["retryable"]) == (documented("another process holds the lock"), True), value


def test_no_room_that_a_merge_sees_in_advance(tmp_path: Path) -> None:
    class Full(QuickFs):
        def free_bytes(self, path: Path) -> int:
            return 3

    db, _ = make(tmp_path, 12, partitions=1)
    executor = LocalExecutor(1)
    (result,) = merge_dates(
        TablePlace(Full(), db.layout, TABLE), [DAY], MergeOptions(), executor=executor, clock=lambda: 1.0
    )
    assert isinstance(result.error, RetryableStorageError) and result.error.retryable
    assert result.error.exit_code == documented("no room on the disk, also where a merge sees it in advance")


def test_no_room_for_what_a_query_spills() -> None:
    error = refusal(duckdb.IOException("IO Error: Could not write: No space left on device"), "select 1")
    assert isinstance(error, RetryableStorageError)
    assert isinstance(refusal(duckdb.IOException("IO Error: no such file"), "select 1"), SettingsError)


def test_rows_of_a_location_of_another_stream(tmp_path: Path) -> None:
    first = write_feed(tmp_path / "feed", epochs=1, locations=2)
    second = first.with_name("second.toml")
    second.write_text(first.read_text().replace('name = "rows"', 'name = "second"'))
    assert run_json(tmp_path / "db", "ingest", str(first), "--once")[0] == 0
    for _ in range(2):
        code, value = run_json(tmp_path / "db", "ingest", str(second), "--once")
        assert (code, value["error"]["retryable"]) == (documented("rows of another stream's location"), False), value
        assert value["error"]["what"] == "a location belongs to another writer"


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (MemoryError(), "out of memory"),
        (pa.ArrowMemoryError("malloc of size 64 failed"), "out of memory"),
        (RuntimeError(NO_THREAD), "the system starts no further thread"),
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "Cannot allocate memory"),
        (BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)), "Resource temporarily unavailable"),
        (OSError(errno.ENFILE, os.strerror(errno.ENFILE)), "Too many open files in system"),
    ],
)
def test_a_machine_without_memory(capsys: pytest.CaptureFixture[str], error: Exception, what: str) -> None:
    assert exit_code(CliContext(json=True), error) == documented("no memory, no further thread or process") == 3
    told = json.loads(capsys.readouterr().out)["error"]
    assert (told["what"], told["retryable"]) == (what, True) and "run it again" in told["hint"]
    assert is_retryable(error), "a stream goes on after a pause"
    with pytest.raises(type(error)):
        unexpected(error)  # which makes bad rows of what is the fault of a record


def test_python_says_so_where_no_thread_can_be_started() -> None:
    """In a process of its own, which may have no more memory than it has, its threads have large stacks."""
    code = """
import resource, threading
threading.stack_size(512 << 20)
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + (64 << 20),) * 2)
try:
    threading.Thread(target=print).start()
except RuntimeError as error:
    print(error)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == NO_THREAD
