"""SASL over TLS on a real listener: PLAIN and SCRAM let the right password in; no error, log or file shows one."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sparkhaven.ingest.feeds.kafka.broker.reader import KafkaReader
from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, KafkaOptions
from sparkhaven.jobs.session.spark_session import import_root
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.errors import EXIT_USAGE, FeedError, FeedSettingsError, SparkhavenError
from sparkhaven.store.io.fs import Fs
from tests.support.kafka.topics import make_topic, send
from tests.support.servers.broker import Broker, free_port
from tests.support.servers.tls import LISTENER, server_settings

pytestmark = [pytest.mark.kafka, pytest.mark.jvm]

READER = "reader-pass"
MODULES = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, str]]:
    """A broker with a SASL_SSL listener and one message in topic ``t``; its address, certificate, and other address."""
    base = tmp_path_factory.mktemp("secure")
    own, certificate = server_settings(base, "SASL_SSL")
    port = free_port()
    name = "listener.name.secure"
    settings = {
        **own,
        f"{name}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        f"{name}.plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required user_reader="{READER}";',
        f"{name}.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
    }
    broker = Broker(Fs(), base, settings=settings, listeners={LISTENER: port})
    broker.start("--add-scram", f"SCRAM-SHA-256=[name=reader,password={READER}]")
    try:
        make_topic(broker.bootstrap, name="t")
        send(broker.bootstrap, "t", [b"hello"])
        yield f"127.0.0.1:{port}", certificate, broker.bootstrap
    finally:
        broker.stop()


def _feed(secure: tuple[str, Path, str], mechanism: str, password: str) -> KafkaOptions:
    values = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": mechanism,
        "sasl.username": "reader",
        "sasl.password": password,
        "ssl.ca.location": str(secure[1]),
    }
    return KafkaOptions(secure[0], ("t",), client=ClientSettings(tuple(values.items())))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_the_right_password_reads_and_a_wrong_one_is_reported_without_it(
    secure: tuple[str, Path, str], mechanism: str, capfd: pytest.CaptureFixture[str]
) -> None:
    feed = _feed(secure, mechanism, READER)
    end = KafkaTopics(feed).look()["t"].partitions[0].end
    reader = KafkaReader(feed)
    assert [m.value() for some in reader.read(OffsetRange("t", 0, 0, end)) for m in some] == [b"hello"]
    reader.close()

    wrong = _feed(secure, mechanism, "wrong-pass")
    began = time.monotonic()
    for feed in (wrong, replace(wrong, topics=(), pattern="t")):
        with pytest.raises(FeedSettingsError, match="refuses access") as soon:
            KafkaTopics(feed, patience=600).look()
        assert soon.value.exit_code == EXIT_USAGE
    assert time.monotonic() - began < 300, "reported when the client knows it, not when its patience has ended"
    with pytest.raises(FeedError, match="refuses access") as looked:
        KafkaTopics(wrong, patience=2).look()
    with pytest.raises(FeedError, match="refuses access") as read:
        list(KafkaReader(wrong, patience=600).read(OffsetRange("t", 0, 0, end)))
    reported = capfd.readouterr()
    for text in (str(looked.value), str(read.value), reported.out, reported.err):
        assert "pass" not in text.replace("password", "")
    assert "uthentication" in str(read.value)


def test_a_broker_that_is_not_trusted_is_reported(secure: tuple[str, Path, str], tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")
    feed = _feed((secure[0], tmp_path / "ca.pem", ""), "PLAIN", READER)
    with pytest.raises(SparkhavenError) as caught:
        KafkaTopics(feed, patience=2).look()
    assert READER not in str(caught.value)


STREAM = """name = "ticks"
table = "Test.Tick"
schema = "Test.Tick.schema"
[feed]
type = "kafka"
bootstrap = "{bootstrap}"
topics = ["{topic}"]
format = "raw"
max_per_trigger = {{ rows = {rows} }}
[feed.client]
"security.protocol" = "SASL_SSL"
"sasl.mechanisms" = "PLAIN"
"sasl.username" = "reader"
"sasl.password" = "${{READER_PASSWORD}}"
"ssl.ca.location" = "{certificate}"
[partition]
internal = {{ meta = "partition" }}
value = {{ fixed = "2026-11-21" }}
[bad_rows]
max_rows = 0
[commit]
trigger = "1 hour"
"""
TOPIC, SHARE = "ticks-of-the-day", 15_000
SCHEMA = """<Table namespace="Test" name="Tick" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/> <Column name="Text" dataType="String"/>
</Table>"""


@pytest.fixture
def job(secure: tuple[str, Path, str], tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """``ingest`` as a process, with Spark's event log: two of four shares of a topic, then it waits for an hour.

    A share is so large that tasks in workers read it, which get the settings of the client with their code.
    """
    bootstrap, certificate, plain = secure
    topic = make_topic(plain, 2, name=TOPIC)
    for partition, shares in ((0, 3), (1, 1)):
        send(plain, topic, [b"x"] * (shares * SHARE), partition)
    settings = {"bootstrap": bootstrap, "topic": topic, "certificate": certificate, "rows": 2 * SHARE}
    (tmp_path / "Test.Tick.schema").write_text(SCHEMA)
    (tmp_path / "ticks.toml").write_text(STREAM.format(**settings))
    for name in ("events", "local"):
        (tmp_path / name).mkdir()
    events = {"enabled": "true", "dir": (tmp_path / "events").as_uri(), "compress": "false", "rolling.enabled": "false"}
    given = [f"--conf spark.eventLog.{name}={value}" for name, value in events.items()]
    environ = {**os.environ, "PYSPARK_SUBMIT_ARGS": " ".join([*given, "pyspark-shell"])}
    environ["SPARK_LOCAL_DIRS"] = str(tmp_path / "local")
    environ |= {"READER_PASSWORD": READER, "PYTHONPATH": str(import_root())}
    words = ["--root", str(tmp_path / "db"), "ingest", str(tmp_path / "ticks.toml"), "--json"]
    words += ["--workers", "2", "--metrics-port", "0"]
    with (tmp_path / "said").open("w") as said:
        line = [sys.executable, "-m", "sparkhaven.jobs.cli.main", *words]
        pipe = subprocess.PIPE
        made = subprocess.Popen(line, stdout=pipe, stderr=said, text=True, env=environ, start_new_session=True)
    try:
        yield made
    finally:
        if made.poll() is None:
            os.killpg(made.pid, signal.SIGKILL)
        made.communicate()


@pytest.mark.spark
def test_a_running_stream_tells_its_lag_and_writes_no_secret_anywhere(
    job: subprocess.Popen[str], tmp_path: Path
) -> None:
    def said() -> str:
        return (tmp_path / "said").read_text()

    def wait_for(what: Callable[[], object]) -> object:
        deadline = time.monotonic() + 300
        while not (found := what()):
            assert job.poll() is None and time.monotonic() < deadline, said()
            time.sleep(0.05)
        return found

    wait_for(lambda: "epoch 1:" in said())
    (url,) = re.findall(r"metrics at (\S+)", said())

    def reported(name: str) -> dict[str, float]:
        """A metric as the process tells it while it runs, by partition."""
        with urllib.request.urlopen(url, timeout=60) as answer:
            text = answer.read().decode()
        samples = [s for family in text_string_to_metric_families(text) for s in family.samples if s.name == name]
        assert all((s.labels["stream"], s.labels["table"]) == ("ticks", "Test.Tick") for s in samples)
        return {s.labels.get("source", "").rpartition("/")[2]: s.value for s in samples}

    wait_for(lambda: reported("sparkhaven_source_lag_records") == {"0": 2 * SHARE, "1": 0})
    assert reported("sparkhaven_source_position") == {"0": SHARE, "1": SHARE}
    assert reported("sparkhaven_rows_total") == {"": 2 * SHARE}
    assert reported("sparkhaven_epoch_current") == reported("sparkhaven_stream_up") == {"": 1}

    during = with_secret(tmp_path, READER)
    os.kill(job.pid, signal.SIGTERM)
    results, _ = job.communicate(timeout=300)
    assert (job.returncode, json.loads(results)["rows"]) == (0, 2 * SHARE), said()
    assert READER not in results
    assert (during, with_secret(tmp_path, READER)) == ([], [])
    # what is written by Spark and by us is there, and is looked at
    assert any(name.startswith("events/") for name in with_secret(tmp_path, "PythonRDD"))
    assert any("/.streams/" in name for name in with_secret(tmp_path, TOPIC))


def with_secret(directory: Path, secret: str) -> list[str]:
    """Files that hold a text: as it is, as hexadecimal, or in base64 at any of its three places."""
    raw = secret.encode()
    forms = [raw, raw.hex().encode(), raw.hex().upper().encode(), secret.encode("utf-16-le")]
    for shift in range(3):
        whole = base64.b64encode(b"\0" * shift + raw)
        forms.append(whole[4 if shift else 0 : len(whole) - 4])  # what does not hang on its neighbours
    found = []
    for path in directory.rglob("*"):
        try:
            content = path.read_bytes() if path.is_file() else b""
        except FileNotFoundError:  # Spark has tidied up meanwhile
            continue
        if any(form in content for form in forms):
            found.append(str(path.relative_to(directory)))
    return found
