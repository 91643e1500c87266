"""Keys of a broker that clients can trust, and a listener with TLS beside the plain one."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers.broker import free_port

STORE = "store-pass"
LISTENER = "SECURE"
_NAME = f"listener.name.{LISTENER.lower()}"


@dataclass(frozen=True)
class Tls:
    """A listener with TLS: its port, the settings of its broker, and the certificate to trust."""

    port: int
    settings: Mapping[str, str]
    certificate: Path

    @property
    def listeners(self) -> dict[str, int]:
        """For the broker."""
        return {LISTENER: self.port}

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def client(self) -> str:
        """The table of a stream file."""
        return f'[feed.client]\n"security.protocol" = "SSL"\n"ssl.truststore.location" = "{self.certificate}"\n'

    @property
    def connector(self) -> dict[str, str]:
        """Options of Spark's Kafka source, beside the address."""
        return {
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(self.certificate),
        }


def server_settings(directory: Path, protocol: str) -> tuple[dict[str, str], Path]:
    """Settings of a broker with a listener of this protocol, its keys made in ``directory``; and its certificate."""
    keys, certificate = directory / "keys.p12", directory / "broker.pem"
    common = ["-alias", "broker", "-keystore", str(keys), "-storepass", STORE]
    made = ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1", "-validity", "2"]
    for words in (made, ["-exportcert", "-rfc", "-file", str(certificate)]):
        subprocess.run(["keytool", *words, *common], check=True, capture_output=True, timeout=300)
    settings = {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{LISTENER}:{protocol}",
        f"{_NAME}.ssl.keystore.location": str(keys),
        f"{_NAME}.ssl.keystore.password": STORE,
        f"{_NAME}.ssl.keystore.type": "PKCS12",
    }
    return settings, certificate


def tls_listener(directory: Path) -> Tls:
    """A listener with TLS on a free port; its keys are made in ``directory``."""
    settings, certificate = server_settings(directory, "SSL")
    return Tls(free_port(), settings, certificate)
