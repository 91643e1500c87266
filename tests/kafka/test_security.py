"""TLS and SASL on real listeners: each mechanism lets the right client in; no error, log or file shows a secret."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sparkhaven.ingest.feeds.kafka.broker.reader import KafkaReader
from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, KafkaOptions
from sparkhaven.jobs.session.spark_session import import_root
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.errors import EXIT_USAGE, FeedError, FeedSettingsError, RetryableFeedError, SettingsError
from sparkhaven.store.io.fs import Fs
from tests.support.kafka.messages import messages
from tests.support.kafka.topics import make_topic, send
from tests.support.processes import wait_until
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
        f"{name}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{name}.plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required user_reader="{READER}";',
        f"{name}.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        f"{name}.scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        f"{name}.oauthbearer.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
    }
    broker = Broker(Fs(), base, settings=settings, listeners={LISTENER: port})
    scram = [("--add-scram", f"SCRAM-SHA-{size}=[name=reader,password={READER}]") for size in (256, 512)]
    broker.start(*(word for words in scram for word in words))
    try:
        make_topic(broker.bootstrap, name="t")
        send(broker.bootstrap, "t", [b"hello"])
        yield f"127.0.0.1:{port}", certificate, broker.bootstrap
    finally:
        broker.stop()


def _feed(secure: tuple[str, Path, str], mechanism: str, password: str) -> KafkaOptions:
    values = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": "reader",
        "sasl.password": password,
        "ssl.truststore.location": str(secure[1]),
    }
    return KafkaOptions(secure[0], ("t",), client=ClientSettings(tuple(values.items())))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_right_password_reads_and_a_wrong_one_is_reported_without_it(
    secure: tuple[str, Path, str], mechanism: str, capfd: pytest.CaptureFixture[str]
) -> None:
    feed = _feed(secure, mechanism, READER)
    end = KafkaTopics(feed).look()["t"].partitions[0].end
    assert values(feed, end) == [b"hello"]

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


def values(feed: KafkaOptions, end: int) -> list[bytes | None]:
    reader = KafkaReader(feed)
    try:
        return [message.value for message in messages(reader, OffsetRange("t", 0, 0, end))]
    finally:
        reader.close()


class Endpoint(BaseHTTPRequestHandler):
    """Gives a token of a client that knows its secret, for a minute, as the broker takes it without a signature."""

    asked: list[str] = []

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        self.asked.append(self.rfile.read(size).decode())
        if self.headers["Authorization"] != "Basic " + base64.b64encode(f"app:{READER}".encode()).decode():
            self.send_error(401)
            return
        now = int(time.time())
        parts = [{"alg": "none"}, {"sub": "reader", "iat": now, "exp": now + 60}]
        token = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
        answer = json.dumps({"access_token": token + ".", "expires_in": 60}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    """The address of a token endpoint on loopback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        Endpoint.asked.clear()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()


def test_tokens_of_an_endpoint(secure: tuple[str, Path, str], endpoint: str) -> None:
    """By client id and secret; a wrong secret is reported without it."""

    def by_token(secret: str) -> KafkaOptions:
        values = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": endpoint,
            "sasl.oauthbearer.client.credentials.client.id": "app",
            "sasl.oauthbearer.client.credentials.client.secret": secret,
            "sasl.oauthbearer.scope": "kafka",
            "ssl.truststore.location": str(secure[1]),
        }
        return KafkaOptions(secure[0], ("t",), client=ClientSettings(tuple(values.items())))

    feed = by_token(READER)
    assert values(feed, KafkaTopics(feed).look()["t"].partitions[0].end) == [b"hello"]
    assert len(Endpoint.asked) == 2, "one client asks once, whatever it connects to"
    assert set(Endpoint.asked) == {"grant_type=client_credentials&scope=kafka"}
    with pytest.raises(FeedSettingsError, match="refuses access") as caught:
        KafkaTopics(by_token("wrong-pass"), patience=60).look()
    assert "401" in str(caught.value) and "wrong-pass" not in str(caught.value)


def test_a_mechanism_that_the_broker_lacks_is_named(secure: tuple[str, Path, str], tmp_path: Path) -> None:
    broker = Broker(
        Fs(),
        tmp_path,
        listeners={LISTENER: (port := free_port())},
        settings={
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{LISTENER}:SASL_PLAINTEXT",
            "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.secure.plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required user_me="x";',
        },
    )
    login = f'{MODULES}.plain.PlainLoginModule required username="me" password="x";'
    jaas = ("security.protocol", "sasl_plaintext"), ("sasl.mechanism", "PLAIN"), ("sasl.jaas.config", login)
    scram = (*jaas[:1], ("sasl.mechanism", "SCRAM-SHA-256"), ("sasl.username", "reader"), ("sasl.password", "x"))
    with broker:
        make_topic(broker.bootstrap, name="t")
        at = f"127.0.0.1:{port}"
        assert KafkaTopics(KafkaOptions(at, ("t",), client=ClientSettings(jaas))).look()["t"].partitions[0].end == 0
        with pytest.raises(FeedSettingsError, match="refuses access") as caught:
            KafkaTopics(KafkaOptions(at, ("t",), client=ClientSettings(scram)), patience=60).look()
        assert "UNSUPPORTED_SASL_MECHANISM" in str(caught.value)


def test_a_broker_that_is_not_trusted_is_reported(secure: tuple[str, Path, str], tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")
    feed = _feed((secure[0], tmp_path / "ca.pem", ""), "PLAIN", READER)
    with pytest.raises(SettingsError, match="certificates or keys") as caught:
        KafkaTopics(feed, patience=2)
    assert READER not in str(caught.value) and "ssl.truststore.location" in str(caught.value.where)
    _, other = server_settings(tmp_path, "SSL")  # of somebody else
    for certificate, words in ((other, "certificate verify failed"), (None, "certificate verify failed")):
        values = [one for one in _feed(secure, "PLAIN", READER).client.values if one[0] != "ssl.truststore.location"]
        values += [("ssl.truststore.location", str(certificate))] if certificate else []
        with pytest.raises(RetryableFeedError, match="cannot be read") as untrusted:
            KafkaTopics(KafkaOptions(secure[0], ("t",), client=ClientSettings(tuple(values))), patience=2).look()
        assert words in str(untrusted.value) and READER not in str(untrusted.value)


def test_a_listener_of_another_protocol_is_reported(secure: tuple[str, Path, str]) -> None:
    """TLS to a plain one, and plain to one with TLS; both go on until the patience has ended."""
    tls = ClientSettings((("security.protocol", "SSL"), ("ssl.truststore.location", str(secure[1]))))
    with pytest.raises(RetryableFeedError) as handshake:
        KafkaTopics(KafkaOptions(secure[2], ("t",), client=tls), patience=1.5).look()
    assert "TLS handshake failed" in str(handshake.value)
    with pytest.raises(RetryableFeedError) as plain:
        KafkaTopics(KafkaOptions(secure[0], ("t",)), patience=1.5).look()
    assert "Has this listener another security.protocol?" in str(plain.value)


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
"sasl.mechanism" = "PLAIN"
"sasl.username" = "reader"
"sasl.password" = "${{READER_PASSWORD}}"
"ssl.truststore.location" = "{certificate}"
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
        def holds() -> object:
            assert job.poll() is None, said()
            return what()

        return wait_until(holds, 300, said)

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
