"""`sparkhaven doctor`: it finds what is not well, says what to type next, changes nothing and never fails itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.jobs.monitor.doctor.checks import asked_dates, findings
from sparkhaven.jobs.monitor.doctor.finding import CheckContext, DoctorFinding, checked, line_of
from sparkhaven.jobs.monitor.doctor.machine import Mount, guarantees, mount_of
from sparkhaven.readers.spark.jvm.jar import BESIDE, NAME
from sparkhaven.store.epochs.files.lock import held_locks
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from tests.support.commands import run, run_json
from tests.support.tables.small_tables import SmallTable
from tests.support.writers.merge_cases import DAY
from tests.support.writers.merge_runs import make, merge
from tests.support.writers.removals import NOW, empty

WRITING = [
    "mkdirs", "keep_dirs", "keep_all_dirs", "write_at", "truncate", "replace", "replace_all", "write_new", "create",
    "copy_range", "shorten", "rename", "symlink", "unlink", "remove_tree", "rmdir", "sync", "sync_dirs", "lock",
]  # fmt: skip


class ReadOnly(Fs):
    """A disk that takes no writes and no locks, and counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    def __getattribute__(self, name: str) -> Any:
        if name in WRITING:
            raise AssertionError(f"{name} was called")
        if name in ("read", "names", "stat"):
            self.asked[name] += 1
        return super().__getattribute__(name)

    def small_files(self, directory: Path, parts: Iterable[str]) -> Iterator[bytes | None]:
        asked = [*parts]
        self.asked["read"] += len(asked)
        return super().small_files(directory, asked)


def run_checks(
    root: Path, fs: Fs | None = None, *, now_s: float | None = None, environ: Mapping[str, str] = os.environ
) -> list[DoctorFinding]:
    now = time.time() if now_s is None else now_s
    return findings(CheckContext(fs or ReadOnly(), Layout(root), now, socket.gethostname(), environ))


def of(found: list[DoctorFinding], check: str, state: str) -> list[DoctorFinding]:
    return [each for each in found if (each.check, each.state) == (check, state)]


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    made = SmallTable(tmp_path / "db")
    made.now = 1_700_000_000.0
    for date in ("2013-01-01", "2013-01-02"):
        made.add("a", date, {"Size": [1, 2, 3]})
    return made


def closed(small: SmallTable) -> Path:
    for log in small.logs.values():
        log.close()
    small.logs.clear()
    return small.root


def test_a_root_that_is_not_there_and_one_that_is_empty(tmp_path: Path) -> None:
    found = run_checks(tmp_path / "db")
    assert [each.state for each in found if each.check == "root"] == ["note"] and found[-1].next is not None
    assert "wrong" not in {each.state for each in found}
    (tmp_path / "db").mkdir()
    found = run_checks(tmp_path / "db")
    assert "wrong" not in {each.state for each in found}
    assert of(found, "streams", "note")[0].what == "no stream has run in this database yet"
    assert not list((tmp_path / "db").iterdir())


def test_days_that_follow_each_other_are_one_range() -> None:
    days = ["2026-02-28", "2026-03-01", "2026-03-02", "2026-03-04", "2026-03-05", "2026-12-31T23", "2027-01-01"]
    asked = asked_dates([*reversed(days)])
    assert asked == ["2026-02-28..2026-03-02,2026-03-04,2026-03-05,2026-12-31T23,2027-01-01"]
    assert asked_dates(["2026-03-01", "2026-03-02", "2026-03-03", "EWR"])[1::2] == ["--dates"] * 3


def test_a_stream_that_runs_and_dates_that_wait(small: SmallTable) -> None:
    found = run_checks(small.root)
    name = str(small.table)
    assert [each for each in found if each.state == "wrong"] == []
    assert (
        f"{name} s is being written by process {os.getpid()} of {socket.gethostname()}"
        in of(found, "locks", "ok")[0].what
    )
    (unmerged,) = of(found, "dates", "note")
    assert unmerged.what == f"{name}: 2 dates have ended and are not merged (2013-01-01, 2013-01-02)"
    assert unmerged.next == f"sparkhaven --root {small.root} merge {name} --dates 2013-01-01,2013-01-02"
    root = closed(small)
    lock = small.layout.stream_lock(small.table, "s")
    lock.write_text(json.dumps({"pid": 7, "host": socket.gethostname()}))
    assert of(run_checks(root), "locks", "ok")[0].what == f"{name} s is not being written"
    lock.write_text(json.dumps({"pid": 7, "host": "elsewhere", "generation": 1, "since": 1_699_999_000_000}))
    (far,) = of(run_checks(root, now_s=1_700_000_000.0), "locks", "note")
    assert "process 7 on elsewhere since 16.7 min" in far.what and far.next == "on elsewhere: ps -p 7"
    (root / "Systems" / small.table.namespace).mkdir(parents=True, exist_ok=True)
    small.merge_by_hand("2013-01-01", 1)
    notes = [each.what for each in of(run_checks(root), "dates", "note")]
    assert notes == [
        f"{name}: 1 date is published, but files that their merge has left behind were not removed (2013-01-01)",
        f"{name}: 1 date has ended and is not merged (2013-01-02)",
        f"{name}: 1 date is merged and not validated (2013-01-01)",
    ]


def test_times_beyond_now(small: SmallTable) -> None:
    found = of(run_checks(closed(small), now_s=1_600_000_000.0), "clock", "wrong")
    assert any("the newest epoch is of 2023-11-14T22:" in each.what for each in found) and found[0].next


def test_a_log_that_is_damaged_or_lost(small: SmallTable) -> None:
    root = closed(small)
    log = small.layout.stream_log(small.table, "s")
    whole = log.read_bytes()
    log.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    for path in log.parent.glob("*.head"):
        path.unlink()
    (damaged,) = of(run_checks(root), "logs", "wrong")
    assert str(log) in damaged.what and damaged.next
    shutil.rmtree(log.parent)
    (lost,) = of(run_checks(root), "logs", "wrong")
    assert "no commit log" in lost.what and "restore" in str(lost.next)
    code, value = run_json(root, "doctor", str(small.table))
    assert (code, value["wrong"] >= 1) == (1, True)


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"\0" * 64, b"\xff{[ no such content"])
def test_whatever_is_damaged_the_command_ends_well(small: SmallTable, content: bytes) -> None:
    small.merge_by_hand("2013-01-01", 1)
    root = closed(small)
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 10
    for path in [*files, None]:
        before = {each: each.read_bytes() for each in files}
        for each in files if path is None else [path]:
            each.write_bytes(content)
        found = run_checks(root, environ={})  # without a JDK, whose jars would be looked at each time
        assert len({each.check for each in found}) >= 6, path
        assert not [each for each in found if "the check itself failed" in each.what], path
        for each, data in before.items():
            each.write_bytes(data)


def test_a_check_that_fails_is_a_finding(tmp_path: Path) -> None:
    seen = CheckContext(Fs(), Layout(tmp_path), 0.0, "here", {})

    def breaks(context: CheckContext) -> Any:
        yield "first"
        raise ZeroDivisionError("by zero")

    def refused(context: CheckContext) -> Any:
        raise CorruptFileError("cut", where="/x", found="3 bytes", hint="restore it")

    assert [each.state for each in checked("c", breaks, seen)] == ["ok", "wrong"]
    assert "ZeroDivisionError: by zero" in checked("c", breaks, seen)[1].what
    assert checked("c", refused, seen) == [DoctorFinding("c", "wrong", "cut (/x): found 3 bytes", "restore it", "E201")]


def test_of_each_location_no_column_is_read(tmp_path: Path) -> None:
    asked = []
    for count in (2, 40):
        small = SmallTable(tmp_path / str(count))
        small.now = 1_700_000_000.0
        small.commit(*(small.append(f"p{n}", "2013-01-01", {"Size": [n]}) for n in range(count)))
        fs = ReadOnly()
        assert "wrong" not in {each.state for each in run_checks(closed(small), fs)}
        asked.append(fs.asked["read"])
    assert asked[1] - asked[0] == 38 * 4, "table.size twice, table.tbl, and the prefix of the column"


def test_a_stray_location_of_history_and_a_lost_index_are_told(small: SmallTable) -> None:
    small.merge_by_hand("2013-01-01", 1)
    root = closed(small)
    partitions = small.layout.partitions(small.table.namespace)
    (source,) = partitions.glob("*/2013-01-01")
    shutil.copytree(source, source.with_name("2013-01-09"))
    small.layout.metadata_index(small.table).unlink(missing_ok=True)
    checked = run_checks(root)
    found = {each.what.partition(": ")[2].partition(",")[0]: each for each in of(checked, "tables", "wrong")}
    (stray,) = [each for each in of(checked, "tables", "note") if "no merge record vouches for" in each.what]
    assert str(source.with_name("2013-01-09")) in stray.what and "dates adopt" in str(stray.next)
    assert "metadata update" in str(found["location index is missing"].next)


def test_truncated_dates_and_their_waste(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 20)
    merge(db.layout)
    merge(db.layout, rewrite=True)
    empty(db)
    db.log.close()
    (waits,) = [each for each in of(run_checks(tmp_path, now_s=NOW), "dates", "note") if "truncated (" in each.what]
    assert waits.next is None and "`delete` removes them in 3,600 s" in waits.what
    later = of(run_checks(tmp_path, now_s=NOW + 3600), "dates", "note")
    told = {each.what.partition(": ")[2]: each.next for each in later}
    (deletes,) = [what for what in told if "truncated, and" in what]
    assert re.fullmatch(rf"1 date is truncated, and [1-9][0-9,]+ bytes of their files not deleted \({DAY}\)", deletes)
    assert told[deletes] == f"sparkhaven --root {tmp_path} delete Test.Every --dates {DAY}"
    assert any(re.search(r"2 replaced locations of history still on disk, [1-9][0-9,]+ bytes", what) for what in told)


def test_mounts_and_what_they_guarantee() -> None:
    text = "\n".join(
        [
            "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw",
            r"23 22 0:5 / /mnt/a\040b rw shared:2 - nfs4 server:/x rw,vers=4.2",
            "24 22 0:6 / /mnt rw - tmpfs tmpfs rw",
            "25 22 8:2 / /data rw,noatime - ext4 /dev/sdb rw,barrier=0",
            "26 22 8:3 / /old ro - xfs /dev/sdc ro",
            "27 22 0:7 / /f rw - fuse.sshfs x rw",
            "28 22 0:8 / /b rw - btrfs /dev/sdd rw",
            "nothing of use",
        ]
    )
    places = {"/": "/", "/mnt/a b/db": "/mnt/a b", "/mnt/ab": "/mnt", "/database": "/", "/data/db": "/data"}
    found = {path: mount_of(text, Path(path)) for path in places}
    assert {path: each and each.place for path, each in found.items()} == places
    assert mount_of("", Path("/")) is None
    states = {}
    for path in ("/", "/mnt/a b", "/mnt", "/data", "/old", "/f", "/b"):
        mount = mount_of(text, Path(path))
        assert isinstance(mount, Mount)
        line = line_of("file system", guarantees(mount))
        states[path] = line.state, line.what
    assert [state for state, _ in states.values()] == ["ok", "note", "note", "wrong", "note", "note", "note"]
    assert "locks depend on the server" in states["/mnt/a b"][1] and "locks" in states["/f"][1]
    assert "lost when the machine stops" in states["/mnt"][1] and "read-only" in states["/old"][1]


def test_locks_of_the_kernel() -> None:
    text = (
        "1: POSIX  ADVISORY  WRITE 9 08:01:5 0 EOF\n2: FLOCK  ADVISORY  WRITE 3357 00:2f:1234567 0 EOF\n2: -> FLOCK x\n"
    )
    assert held_locks(text) == {(0, 0x2F, 1234567): 3357}


def test_the_command_tells_people_and_programs(small: SmallTable) -> None:
    root = closed(small)
    result = run(root, "doctor")
    assert result.exit_code == 0 and "next: sparkhaven --root" in result.stdout
    lines = result.stdout.splitlines()
    assert lines[-1].startswith("0 wrong, ") and lines[-1].endswith(" ok (--all shows them)")
    assert not any(line.startswith("ok ") for line in lines)
    assert any(line.startswith("ok ") for line in run(root, "doctor", "--all").stdout.splitlines())
    code, value = run_json(root, "doctor", str(small.table))
    assert (code, value["wrong"]) == (0, 0) and {"check", "state", "what"} <= value["findings"][0].keys()
    code, value = run_json(root, "doctor", "No.Such")
    assert code == 1 and value["findings"][-1]["what"].startswith("no table No.Such")


@pytest.mark.slow
def test_it_says_which_source_spark_reads_with(tmp_path: Path) -> None:
    def said(*lines: str) -> list[tuple[str, str]]:
        (tmp_path / "spark-defaults.conf").write_text("\n".join(lines))
        environ = {**os.environ, "SPARK_CONF_DIR": str(tmp_path)}
        findings_ = run_checks(tmp_path / "db", environ=environ)
        return [
            (finding.state, finding.what)
            for finding in findings_
            if finding.check == "spark" and "tables by" in finding.what
        ]

    for defaults in ("# nothing", "spark.sparkhaven.reader auto"):
        assert said(defaults) == [
            ("ok", f"Spark reads tables by Java after sparkhaven.register(spark), or with {BESIDE} in spark.jars")
        ]
    assert said("spark.sparkhaven.reader  python") == [
        ("ok", f"Spark reads tables by Python: {tmp_path}/spark-defaults.conf has spark.sparkhaven.reader python")
    ]

    environ = {**os.environ, "SPARK_CONF_DIR": str(tmp_path)}
    (tmp_path / "spark-defaults.conf").write_text("spark.sparkhaven.reader scala\n")
    wrong = [finding for finding in run_checks(tmp_path / "db", environ=environ) if finding.state == "wrong"]
    assert [(finding.check, finding.next) for finding in wrong] == [
        ("spark", "write auto or jvm or python there, or remove the line")
    ]

    other = tmp_path / NAME
    for content, states in ((BESIDE.read_bytes(), []), (b"", ["wrong"])):
        other.write_bytes(content)
        (tmp_path / "spark-defaults.conf").write_text(f"spark.jars some.jar,file:{other}\n")
        named = [finding for finding in run_checks(tmp_path / "db", environ=environ) if str(other) in finding.what]
        assert [finding.state for finding in named] == states


def test_no_spark_is_imported() -> None:
    code = "import sparkhaven.jobs.cli.main, sparkhaven.jobs.cli.setup, sys; print('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"
