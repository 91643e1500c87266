"""The settings of ``[feed.client]``: Java's names, what they mean here, and what is said of names that are not Java's.

``KNOWN`` is the table that the documentation shows. Values are checked when the stream file is read; nothing here needs
the client itself. Messages name settings and never show the value of a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal

from sparkhaven.ingest.feeds.kafka.options import JAAS_VALUE, ClientSettings

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM, "OAUTHBEARER")
LOOKUPS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
TOKEN = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105  a name
CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105  a name
JAAS = "sasl.jaas.config"
_JAAS = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\s+(?P<options>.*);\s*", re.DOTALL
)

KNOWN: Mapping[str, tuple[str, str]] = {  # name: (default, meaning)
    "security.protocol": ("PLAINTEXT", f"one of {', '.join(PROTOCOLS)}"),
    "sasl.mechanism": ("", f"one of {', '.join(MECHANISMS)}"),
    JAAS: ("", "login module with its user and password, or with `clientId`, `clientSecret` and `scope`"),
    "sasl.username": ("", "user of PLAIN and SCRAM, instead of `sasl.jaas.config`. Not a name of Java's"),
    "sasl.password": ("", "its password. Not a name of Java's"),
    TOKEN: ("", "OAUTHBEARER: where tokens are asked for, by client credentials"),
    CLIENT_ID: ("", "OAUTHBEARER: the client that asks for them"),
    CLIENT_SECRET: ("", "OAUTHBEARER: its secret"),
    "sasl.oauthbearer.scope": ("", "OAUTHBEARER: the scope that is asked for"),
    "ssl.truststore.location": ("", "PEM file with the certificates to trust. Default: those of the system"),
    "ssl.truststore.certificates": ("", "the same, as text"),
    "ssl.truststore.type": ("PEM", "`PEM`"),
    "ssl.keystore.location": ("", "PEM file with this client's key and certificates"),
    "ssl.keystore.key": ("", "the key, as text"),
    "ssl.keystore.certificate.chain": ("", "its certificates, as text"),
    "ssl.keystore.type": ("PEM", "`PEM`"),
    "ssl.key.password": ("", "password of the key"),
    "ssl.endpoint.identification.algorithm": ("https", "`https`, or empty: the broker's name is not compared"),
    "ssl.cipher.suites": ("", "ciphers of TLS 1.2, by OpenSSL's names"),
    "ssl.crl.location": ("", "PEM file of certificates that were revoked. Not a name of Java's"),
    "client.id": ("sparkhaven", "name of this client in the broker's logs and quotas"),
    "client.rack": ("", "rack of this machine: messages are read from the replica that the broker names"),
    "client.dns.lookup": (LOOKUPS[0], f"`{LOOKUPS[0]}` or `{LOOKUPS[1]}`"),
    "group.id": ("sparkhaven", 'group that is asked for its offsets by `start = "committed"`. Nothing is committed'),
    "isolation.level": ("read_committed", "or `read_uncommitted`"),
    "check.crcs": ("true", "compares the checksum of each record batch"),
    "max.partition.fetch.bytes": ("4194304", "bytes of a partition that one request asks for at most"),
    "fetch.max.bytes": ("52428800", "bytes of all partitions that one request asks for at most"),
    "fetch.min.bytes": ("1", "bytes that the broker waits for"),
    "fetch.max.wait.ms": ("20", "how long it waits for them"),
    "request.timeout.ms": ("30000", "how long an answer may take"),
    "socket.connection.setup.timeout.ms": ("10000", "how long a connection may take, with TLS and SASL"),
    "socket.connection.setup.timeout.max.ms": ("30000", "the same after failures"),
    "reconnect.backoff.ms": ("50", "wait before the second try to connect"),
    "reconnect.backoff.max.ms": ("1000", "longest wait between two tries"),
    "connections.max.idle.ms": ("540000", "after which a connection that is not used is closed"),
    "metadata.max.age.ms": ("300000", "after which the leader is asked again which replica to read"),
    "receive.buffer.bytes": ("-1", "buffer of the socket. -1: as the system has it"),
    "send.buffer.bytes": ("-1", "the same for what is sent"),
}
ELSEWHERE = {  # what another key of the stream file says, or the stream itself
    "bootstrap.servers": "feed.bootstrap says where the brokers are",
    "auto.offset.reset": "feed.start says where to begin, and a position that is lost stops the stream",
    "enable.auto.commit": "the commit log has the positions",
    "auto.commit.interval.ms": "the commit log has the positions",
    "max.poll.records": "feed.max_per_trigger says how large a batch is",
    "key.deserializer": "feed.key says how keys are read",
    "value.deserializer": "feed.format says how values are read",
}
OTHERS = {  # librdkafka's names: the name that Java has
    "metadata.broker.list": "feed.bootstrap",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.key.location": "ssl.keystore.location",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "enable.ssl.certificate.verification": "ssl.truststore.location",
    "sasl.oauthbearer.client.id": CLIENT_ID,
    "sasl.oauthbearer.client.secret": CLIENT_SECRET,
    "sasl.oauthbearer.method": TOKEN,
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "socket.timeout.ms": "request.timeout.ms",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
}


@dataclass(frozen=True, slots=True)
class Tls:
    """Whom to trust, and who this client is. Texts are PEM, ``…_file`` are files of it."""

    trusted_file: str = ""
    trusted: str = ""
    own_file: str = ""
    key: str = ""
    chain: str = ""
    password: str = field(default="", repr=False)
    by_name: bool = True
    ciphers: str = ""
    revoked_file: str = ""


@dataclass(frozen=True, slots=True)
class Login:
    """Who this client is to SASL. ``endpoint``: where its tokens come from."""

    mechanism: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    endpoint: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True)
class FetchTerms:
    """How messages are asked for: ``portion`` bytes of a partition, ``most`` of all, after ``wait_ms`` at most.

    ``rack``: of this machine; a replica that was named is read for ``replica_seconds``.
    """

    committed: bool
    checked: bool
    portion: int
    most: int
    least: int
    wait_ms: int
    rack: str
    replica_seconds: float


@dataclass(frozen=True, slots=True)
class ClientTerms:
    """All that ``[feed.client]`` says, with defaults. Times in ms and sizes in bytes stand in ``numbers`` by name."""

    protocol: Protocol
    tls: Tls
    login: Login
    fetch: FetchTerms
    client_id: str
    group: str
    lookup: str
    numbers: Mapping[str, int]


def client_terms(settings: ClientSettings) -> ClientTerms:
    """What settings mean.

    Args:
        settings: Names and values as they were written.

    Returns:
        Their meaning, with the defaults of what was not written.

    Raises:
        ValueError: A name that is not known, or a value that does not fit. The message has the name to write.
    """
    given = dict(settings.values)
    for name in sorted(given):
        _known(name)
    values = {**{name: default for name, (default, _) in KNOWN.items()}, **given}
    protocol = _one_of(values, "security.protocol", PROTOCOLS, str.upper)
    numbers = {name: _number(values, name) for name, (default, _) in KNOWN.items() if default.lstrip("-").isdigit()}
    for name in ("ssl.truststore.type", "ssl.keystore.type"):
        _one_of(values, name, ("PEM",), str.upper)
    if values["ssl.keystore.key"] and not values["ssl.keystore.certificate.chain"]:
        raise ValueError("ssl.keystore.key: ssl.keystore.certificate.chain is missing, which belongs to it")
    tls = Tls(
        values["ssl.truststore.location"],
        values["ssl.truststore.certificates"],
        values["ssl.keystore.location"],
        values["ssl.keystore.key"],
        values["ssl.keystore.certificate.chain"],
        values["ssl.key.password"],
        _one_of(values, "ssl.endpoint.identification.algorithm", ("https", ""), str.lower) == "https",
        values["ssl.cipher.suites"],
        values["ssl.crl.location"],
    )
    fetch = FetchTerms(
        _one_of(values, "isolation.level", ("read_committed", "read_uncommitted"), str.lower) == "read_committed",
        _one_of(values, "check.crcs", ("true", "false"), str.lower) == "true",
        numbers["max.partition.fetch.bytes"],
        numbers["fetch.max.bytes"],
        numbers["fetch.min.bytes"],
        numbers["fetch.max.wait.ms"],
        values["client.rack"],
        numbers["metadata.max.age.ms"] / 1000,
    )
    login = _login(values) if protocol.startswith("SASL") else Login()
    lookup = _one_of(values, "client.dns.lookup", LOOKUPS, str.lower)
    return ClientTerms(protocol, tls, login, fetch, values["client.id"], values["group.id"], lookup, numbers)  # type: ignore[arg-type]


def _known(name: str) -> None:
    if name in KNOWN:
        return
    if name in ELSEWHERE:
        raise ValueError(f"{name} is a setting that the stream sets itself: {ELSEWHERE[name]}. Remove it")
    if name in OTHERS:
        raise ValueError(f"{name} is a name of librdkafka. Write {OTHERS[name]}, as Java's client has it")
    near = get_close_matches(name, KNOWN, 1)
    hint = f"did you mean {near[0]}?" if near else "the names of Java's consumer that are known stand in the reference"
    raise ValueError(f"{name} is not a setting of the Kafka client that is known here: {hint}")


def _login(values: Mapping[str, str]) -> Login:
    mechanism = _one_of(values, "sasl.mechanism", MECHANISMS, str.upper)
    options = _jaas(values[JAAS]) if values[JAAS] else {}
    if mechanism == "OAUTHBEARER":
        client = values[CLIENT_ID] or options.get("clientId", "")
        secret = values[CLIENT_SECRET] or options.get("clientSecret", "")
        scope = values["sasl.oauthbearer.scope"] or options.get("scope", "")
        for name, value in ((TOKEN, values[TOKEN]), (CLIENT_ID, client), (CLIENT_SECRET, secret)):
            if not value:
                raise ValueError(f"{name}: expected a text, for OAUTHBEARER")
        if not values[TOKEN].startswith(("https://", "http://")):
            raise ValueError(f"{TOKEN}: expected an address, like https://login.example.com/token")
        return Login(mechanism, client, secret, values[TOKEN], scope)
    user = values["sasl.username"] or options.get("username", "")
    password = values["sasl.password"] or options.get("password", "")
    if not user:
        raise ValueError(f"sasl.username: expected the user of {mechanism}, here or in {JAAS}")
    return Login(mechanism, user, password)


def _jaas(text: str) -> dict[str, str]:
    match = _JAAS.fullmatch(text)
    if match is None:
        raise ValueError(f'{JAAS}: expected a login module, like org.….PlainLoginModule required username="me" …;')
    return {one["name"]: re.sub(r"\\(.)", r"\1", one["value"]) for one in JAAS_VALUE.finditer(match["options"])}


def _one_of(values: Mapping[str, str], name: str, choices: tuple[str, ...], form: Callable[[str], str]) -> str:
    value = form(values[name].strip())
    if value not in choices:
        raise ValueError(f"{name}: expected {' or '.join(choice or 'nothing' for choice in choices)}")
    return value


def _number(values: Mapping[str, str], name: str) -> int:
    if not re.fullmatch(r"-1|\d{1,15}", values[name]):
        raise ValueError(f"{name}: expected a whole number")
    return int(values[name])
