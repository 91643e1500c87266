"""The alert rules as Prometheus itself evaluates them: when each of them fires, and when it does not."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import REPOSITORY

PROMTOOL = shutil.which("promtool")
ALERTS = REPOSITORY / "conf/prometheus-alerts.yml"
STREAM = 'table="A.B",stream="s"'
UP = f"sparkhaven_stream_up{{{STREAM}}}"
DOWN, NONE, STOPPED, BAD = (f"Sparkhaven{name}" for name in ("StreamDown", "NoStream", "CommitsStopped", "BadRows"))
END, BATCHES = f'sparkhaven_source_end{{{STREAM},source="t/0"}}', f"sparkhaven_batches_total{{{STREAM}}}"
REJECTED = f'sparkhaven_quarantine_total{{{STREAM},reason="overflow"}}'
LATE = f'sparkhaven_late_rows_total{{{STREAM},reason="late"}}'
FAILED = f'sparkhaven_stream_failed_seconds{{{STREAM},error="CommitError"}}'
FREE = 'sparkhaven_disk_free_bytes{table="A.B",volume="0"}'
CASES: dict[str, tuple[dict[str, str], str, int, int]] = {  # series by minute, alert, minute, how many fire
    "a stream runs": ({UP: "1x120"}, DOWN, 100, 0),
    "a stream has failed in a process that lives": ({UP: "1x60 0x60"}, DOWN, 70, 1),
    "the process of a stream has died": ({UP: "1x60", 'up{job="x"}': "1x120"}, DOWN, 75, 1),
    "one of two processes has died": ({UP: "1x60", UP.replace('"s"', '"t"'): "1x120"}, DOWN, 75, 1),
    "no process ever was": ({'up{job="x"}': "1x120"}, NONE, 20, 1),
    "a process is": ({UP: "1x120"}, NONE, 20, 0),
    "the source moves, commits do not": ({END: "0+10x120", BATCHES: "5x120"}, STOPPED, 60, 1),
    "both move": ({END: "0+10x120", BATCHES: "0+1x120"}, STOPPED, 60, 0),
    "nothing moves": ({END: "10x120", BATCHES: "5x120"}, STOPPED, 60, 0),
    "first bad rows": ({REJECTED: "0x10 7x110"}, BAD, 13, 1),
    "bad rows of yesterday": ({REJECTED: "7x120"}, BAD, 60, 0),
    "late rows": ({LATE: "0x10 1x110"}, "SparkhavenLateRows", 13, 1),
    "a failure that no success has followed": ({FAILED: "1.7e9x120"}, "SparkhavenStreamFailed", 10, 1),
    "a volume is nearly full": ({FREE: "9e9x120"}, "SparkhavenDiskFull", 20, 1),
}

pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="no promtool: apt-get install prometheus")


def test_the_rules_are_sound() -> None:
    done = subprocess.run([str(PROMTOOL), "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", CASES)
def test_when_an_alert_fires(tmp_path: Path, kind: str) -> None:
    series, alert, minute, count = CASES[kind]
    tried: dict[str, Any] = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)',
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": "{}", "value": count}],
            }
        ],
    }
    file = tmp_path / "test.json"  # YAML too
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [tried]}))
    done = subprocess.run([str(PROMTOOL), "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
