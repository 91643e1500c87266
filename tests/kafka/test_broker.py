"""The broker of the tests: why it does not start, and that it ends with its owner. What it keeps: ``test_running``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sparkhaven.jobs.session.spark_session import import_root
from sparkhaven.store.errors import RetryableFeedError
from sparkhaven.store.io.fs import Fs
from tests.support.processes import ends, runs
from tests.support.servers.broker import Broker, free_port

pytestmark = [pytest.mark.kafka, pytest.mark.jvm]


def test_port_in_use_is_reported_with_the_end_of_the_log(tmp_path: Path, broker: Broker) -> None:
    taken = int(broker.bootstrap.rpartition(":")[2])
    with pytest.raises(RetryableFeedError, match="does not start") as caught:
        Broker(Fs(), tmp_path, port=taken).start()
    assert "in use" in str(caught.value)
    assert free_port() != taken


OWNER = """
import sys, time
from pathlib import Path
from tests.support.servers.broker import Broker
from sparkhaven.store.io.fs import Fs
broker = Broker(Fs(), Path(sys.argv[1]))
broker.start()
print(broker.pid, flush=True)
time.sleep(600)
"""


def test_a_broker_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(import_root())}
    line = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, env=env, start_new_session=True) as owner:
        assert owner.stdout is not None
        broker = int(owner.stdout.readline())
        assert runs(broker)
        os.killpg(owner.pid, signal.SIGTERM)
    assert ends(broker)
