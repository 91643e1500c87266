"""SASL over TLS on a real listener: PLAIN and SCRAM let the right password in, and no error shows a wrong one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.kafka_feed import ClientSettings, KafkaFeed
from ingest.kafka_reader import KafkaReader
from ingest.kafka_topics import KafkaTopics
from jobs.broker import Broker, free_port
from store.epochs.state import OffsetRange
from store.errors import FeedError, SparkhavenError
from store.fs import Fs
from tests.kafka.topics import make_topic, send

pytestmark = [pytest.mark.kafka, pytest.mark.jvm]

STORE, READER = "store-pass", "reader-pass"
MODULES = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A broker with a SASL_SSL listener and one message in topic ``t``; its address and its certificate."""
    base = tmp_path_factory.mktemp("secure")
    keys, certificate, port = base / "keys.p12", base / "broker.pem", free_port()
    common = ["-alias", "broker", "-keystore", str(keys), "-storepass", STORE]
    made = ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1", "-validity", "2"]
    for words in (made, ["-exportcert", "-rfc", "-file", str(certificate)]):
        subprocess.run(["keytool", *words, *common], check=True, capture_output=True, timeout=60)
    name = "listener.name.secure"
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
        f"{name}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        f"{name}.plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required user_reader="{READER}";',
        f"{name}.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        f"{name}.ssl.keystore.location": str(keys),
        f"{name}.ssl.keystore.password": STORE,
        f"{name}.ssl.keystore.type": "PKCS12",
    }
    broker = Broker(Fs(), base, settings=settings, listeners={"SECURE": port})
    broker.start("--add-scram", f"SCRAM-SHA-256=[name=reader,password={READER}]")
    try:
        make_topic(broker.bootstrap, name="t")
        send(broker.bootstrap, "t", [b"hello"])
        yield f"127.0.0.1:{port}", certificate
    finally:
        broker.stop()


def _feed(secure: tuple[str, Path], mechanism: str, password: str) -> KafkaFeed:
    values = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": mechanism,
        "sasl.username": "reader",
        "sasl.password": password,
        "ssl.ca.location": str(secure[1]),
    }
    return KafkaFeed(secure[0], ("t",), client=ClientSettings(tuple(values.items())))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_the_right_password_reads_and_a_wrong_one_is_told_without_it(
    secure: tuple[str, Path], mechanism: str, capfd: pytest.CaptureFixture[str]
) -> None:
    feed = _feed(secure, mechanism, READER)
    end = KafkaTopics(feed).look()["t"].partitions[0].end
    reader = KafkaReader(feed)
    assert [m.value() for some in reader.read(OffsetRange("t", 0, 0, end)) for m in some] == [b"hello"]
    reader.close()

    wrong = _feed(secure, mechanism, "wrong-pass")
    with pytest.raises(FeedError, match="does not let us read") as looked:
        KafkaTopics(wrong, patience=2).look()
    with pytest.raises(FeedError, match="does not let us read") as read:
        list(KafkaReader(wrong, patience=60).read(OffsetRange("t", 0, 0, end)))
    told = capfd.readouterr()
    for text in (str(looked.value), str(read.value), told.out, told.err):
        assert "pass" not in text.replace("password", "")
    assert "uthentication" in str(read.value)


def test_a_broker_that_is_not_trusted_is_told(secure: tuple[str, Path], tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")
    feed = _feed((secure[0], tmp_path / "ca.pem"), "PLAIN", READER)
    with pytest.raises(SparkhavenError) as caught:
        KafkaTopics(feed, patience=2).look()
    assert READER not in str(caught.value)
