"""Commands as processes: their lines and results, their end, and alerts that cannot be sent."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from nights.alerts import alert, message, send
from nights.report import markdown, nights
from nights.results import Next, what_next
from nights.running import LINES_KEPT, Command

TALK = "import sys; print('{\"a\": 1}'); print('said', file=sys.stderr, flush=True); sys.exit(3)"
OBEY = (
    "import signal, sys, time\n"
    "signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7))\n"
    "print('ready', flush=True)\n"
    "time.sleep(600)"
)


def test_lines_results_and_the_exit_code() -> None:
    lines: list[str] = []
    ended = Command([sys.executable, "-c", TALK]).run(lines.append)
    assert (ended.code, ended.results, ended.lines) == (3, ({"a": 1},), ("said",))
    assert sorted(lines) == ["said", '{"a": 1}']


def test_many_lines_are_passed_on_and_the_last_are_kept() -> None:
    lines: list[str] = []
    ended = Command([sys.executable, "-c", "print(*range(5000), sep='\\n')"]).run(lines.append)
    assert len(lines) == 5000 and ended.lines == tuple(map(str, range(5000 - LINES_KEPT, 5000)))


def test_the_environment_is_added_to() -> None:
    line = [sys.executable, "-c", "import os; print(os.environ['HERE'], 'PATH' in os.environ)"]
    assert Command(line, {"HERE": "x"}).run(lambda text: None).lines == ("x True",)


def test_a_program_that_is_not_there_is_reported_and_not_tried_again(tmp_path: Path) -> None:
    ended = Command([str(tmp_path / "none")]).run(lambda line: None)
    assert what_next(ended) is Next.FAIL and "none cannot be started" in ended.lines[0]


def test_stop_ends_the_command_with_sigterm() -> None:
    command = Command([sys.executable, "-c", OBEY])
    ready = threading.Event()
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(command.run(lambda line: ready.set()).code))
    thread.start()
    assert ready.wait(60)
    command.stop()
    thread.join(60)
    assert codes == [7]
    command.stop()  # it has ended: nothing happens


def test_an_interrupted_command_is_stopped(tmp_path: Path) -> None:
    class TimeOut(BaseException):
        pass

    def time_out(line: str) -> None:
        raise TimeOut

    code = OBEY.replace("sys.exit(7)", f"sys.exit(open({str(tmp_path / 'obeyed')!r}, 'w').close())")
    command = Command([sys.executable, "-c", code])
    with pytest.raises(TimeOut):
        command.run(time_out)
    assert (tmp_path / "obeyed").exists()


def test_an_alert_is_given_to_a_command(tmp_path: Path) -> None:
    text = alert("end_of_day", "manual", "T.merge", 1, "desk", message("bad", ["look"], "sparkhaven merge -v"))
    assert send(["sh", "-c", f"cat > {tmp_path}/sent"], text, pytest.fail)
    assert (tmp_path / "sent").read_text() == (
        "end_of_day T.merge failed, try 1, owner desk, run manual\nbad\nto do: look\nby hand: sparkhaven merge -v\n"
    )
    assert not send([], text, pytest.fail)


@pytest.mark.parametrize(
    ("command", "said"),
    [(["/nowhere/tell"], "No such file"), (["sh", "-c", "echo away >&2; exit 4"], "sh ended with 4: away")],
)
def test_an_alert_that_cannot_be_sent_is_logged_and_raises_nothing(command: list[str], said: str) -> None:
    lines: list[str] = []
    assert not send(command, "text", lines.append)
    assert len(lines) == 1 and said in lines[0]


def test_the_report_has_a_line_a_night() -> None:
    states = {
        **{f"NS_T.night.{step}_0": "success" for step in ("wait", "merge", "validate", "publish", "truncate")},
        "NS_T.night.delete_0": "failed",
        "NS_T.night.merge_1": "failed",
        "NS_T.night.validate_1": "upstream_failed",
        "NS_T.dates": "success",
        "NS_T.night.publish_2": "success",
        "NS_T.night.wait_3": "upstream_failed",
        "report": "running",
    }
    passed, failed = {"passed": True}, {"passed": False}
    results = {
        "merge": [{"outcome": "merged", "rows_out": 1234}, None, {"outcome": "nothing", "rows_out": 0}],
        "validate": [{"rules": [passed, passed, failed]}, None, None],
        "truncate": [{"rows": 1234}],
    }
    found = nights("NS.T", "NS_T", ["2026-01-05", "2026-01-06", "2026-01-07", "2026-01-08"], states, results)
    assert [night.bad for night in found] == [True, True, False, True]
    assert markdown("run", found).splitlines() == [
        "# run",
        "",
        "4 nights, 3 failed",
        "",
        "| table | date | outcome | rows merged | rules passed | rows truncated |",
        "|---|---|---|---|---|---|",
        "| NS.T | 2026-01-05 | FAILED at delete | 1,234 | 2 of 3 | 1,234 |",
        "| NS.T | 2026-01-06 | FAILED at merge | - | - | - |",
        "| NS.T | 2026-01-07 | merged before | 0 | - | - |",
        "| NS.T | 2026-01-08 | FAILED | - | - | - |",
    ]
    *well, after = nights("NS.T", "NS_T", ["2026-01-05"], {**states, "NS_T.snapshot": "failed"}, results)
    assert (after.date, after.failed, after.bad) == ("-", "snapshot", True) and [night.date for night in well] == [
        "2026-01-05"
    ]
    assert len(nights("NS.T", "NS_T", ["2026-01-05"], {**states, "NS_T.expire": "skipped"}, results)) == 1
    (lost,) = nights("NS.T", "NS_T", [], {"NS_T.dates": "failed"}, {})
    assert (lost.bad, lost.failed) == (True, "dates"), "no dates because their task failed is no quiet night"
    assert markdown("run", []) == "# run\n\n0 nights, 0 failed\n"


def test_stop_before_the_start_does_nothing() -> None:
    Command([sys.executable, "-c", "pass"], dict(os.environ)).stop()
