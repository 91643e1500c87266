"""Connections to the brokers of one cluster by kafka-python: whoever asks drives them, in the thread that asks.

This is the only module that knows more of kafka-python than it documents. ``NEEDS`` lists what it takes from inside; a
test holds each release against the list. What the library lacks, and a test guards each:

* An answer before the end of a stream was thrown away, so a wrong password was "socket disconnected". Answers are
  received here, each into its own memory, without further copies.
* A TLS handshake had no time-out. A try to connect that failed left its socket open.
* ``allow_auto_create_topics=False`` reached nobody. Metadata are asked here, by a request that says so.
* ``security_protocol="ssl"`` was plain. ``client_settings`` checks it.
* Passwords stood in the log at DEBUG. Lines with requests are left out.
* A connection that is paused (throttled, or with too much on the way) refused requests. ``send`` says "not now".
* Why there is no connection stood in the log only. ``note`` is told.
* The administrative client hung in its own thread, and in forked processes. There is no thread here.

A connection is secured by TLS: whom to trust, who the client is, and what is said of a file that cannot be used. Tokens
of OAUTHBEARER are asked for by client credentials (RFC 6749, 4.4), and used until most of their life is over.
"""

from __future__ import annotations

import base64
import errno
import json
import logging
import os
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
import weakref
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import kafka.errors as kp
from kafka.future import Future
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.frame import KafkaBytes
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.parser import KafkaProtocol

from sparkhaven.ingest.feeds.kafka.broker.errors import told
from sparkhaven.ingest.feeds.kafka.client_settings import ClientTerms, Login, Tls
from sparkhaven.store.epochs.state.offsets import TopicPartition
from sparkhaven.store.errors import SettingsError

ASK_SECONDS = 10.0
USED = 0.8  # of the life of a token, before another one is asked for
MOST = 1 << 20  # bytes of an answer
NEEDS: Mapping[type, tuple[str, ...]] = {
    NetworkSelector: ("poll", "sleep", "wait_read", "wait_write", "close"),
    KafkaConnectionManager: (
        "get_connection", "call_soon", "connection_delay", "least_loaded_node", "ssl_enabled", "close",
        "_build_transport", "socket_connection_setup_timeout_ms",
    ),
    KafkaConnection: ("init_future", "close_future", "send_request", "data_received", "close"),
    KafkaTCPTransport: ("handshake", "abort", "close", "_read_from_sock"),
    KafkaSSLTransport: ("handshake",),
    KafkaProtocol: ("receive_bytes", "_process_response"),
    KafkaBytes: ("read",),
}  # fmt: skip
NODES = {"_net", "_conns", "cluster", "config"}  # attributes of a manager
MOST_RECEIVED = 512 << 20  # bytes of one answer
LARGE = 1 << 16  # bytes of an answer that is not copied before it is decoded
SPARE = 8  # large answers whose memory is kept
LOOK_SECONDS = 0.1  # between two looks of whoever waits for an answer
IN_FLIGHT = 1 << 20  # requests on the way to a broker; more would pause the connection
ENDED = "the broker ended the connection"
ENDED_AT_ONCE = f"{ENDED} at once. Has this listener another security.protocol?"


def tls_context(tls: Tls) -> ssl.SSLContext:
    """For connections of these settings. SettingsError for certificates or keys that cannot be used."""
    name = "ssl.truststore.location"
    try:
        context = ssl.create_default_context(cafile=tls.trusted_file or None, cadata=tls.trusted or None)
        context.check_hostname = tls.by_name
        if tls.ciphers:
            name = "ssl.cipher.suites"
            context.set_ciphers(tls.ciphers)
        if tls.revoked_file:
            name = "ssl.crl.location"
            context.load_verify_locations(tls.revoked_file)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        name = "ssl.keystore.location"
        if tls.own_file:
            context.load_cert_chain(tls.own_file, password=tls.password)
        elif tls.key:
            name = "ssl.keystore.key"
            _load_text(context, f"{tls.key}\n{tls.chain}\n", tls.password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise SettingsError(
            "the Kafka client cannot use its certificates or keys",
            where=f"feed.client {name}",
            expected="PEM, as openssl writes it" if name != "ssl.cipher.suites" else "ciphers by OpenSSL's names",
            found=getattr(error, "strerror", None) or str(error),
            hint="correct the file. Stores of Java's become PEM by keytool -importkeystore and openssl pkcs12",
        ) from None
    return context


def _load_text(context: ssl.SSLContext, text: str, password: str) -> None:
    """A key that is a text, by a file in memory: Python's ssl takes files only."""
    number = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        os.write(number, text.encode())
        context.load_cert_chain(f"/proc/self/fd/{number}", password=password)
    finally:
        os.close(number)


class OidcTokens(AbstractTokenProvider):  # type: ignore[misc]
    """The tokens of one client. The endpoint is trusted as the broker is."""

    def __init__(self, login: Login, tls: Tls, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._login, self._clock = login, clock
        self._context = tls_context(tls) if login.endpoint.startswith("https:") else None
        self._token, self._until = "", 0.0

    def token(self) -> str:
        """A token that is good for a while.

        Raises:
            SaslAuthenticationFailedError: The endpoint refuses the client.
            KafkaConnectionError: It does not answer, or with something else.
        """
        if self._clock() >= self._until:
            self._token, life = self._asked()
            self._until = self._clock() + USED * life
        return self._token

    def _asked(self) -> tuple[str, float]:
        login = self._login
        form = {"grant_type": "client_credentials", **({"scope": login.scope} if login.scope else {})}
        basic = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
        headers = {"Authorization": f"Basic {basic}", "Accept": "application/json"}
        data = urllib.parse.urlencode(form).encode()
        request = urllib.request.Request(login.endpoint, data, headers)  # noqa: S310  the settings check it
        try:
            with urllib.request.urlopen(request, timeout=ASK_SECONDS, context=self._context) as answer:  # noqa: S310
                told = json.loads(answer.read(MOST))
            return str(told["access_token"]), float(told.get("expires_in", 0))
        except urllib.error.HTTPError as error:
            error.close()
            words = f"the token endpoint answers {error.code} {error.reason}"
            kind = kp.SaslAuthenticationFailedError if error.code in (400, 401, 403) else kp.KafkaConnectionError
            raise kind(words) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise kp.KafkaConnectionError(f"the token endpoint gives no token: {error!r}") from None


class _NoRequests(logging.Filter):
    """Leaves out lines that show requests: a request of SASL has the password."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING


for _name in ("kafka.protocol.parser", "kafka.net.connection", "kafka.net.transport"):
    logging.getLogger(_name).addFilter(_NoRequests())


@dataclass(frozen=True, slots=True)
class Leader:
    """Who has a partition, and since which epoch; -1 where that is not known."""

    node: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as metadata tell it: an error, or its id ("" for none), and the error of each partition."""

    error: int
    topic_id: str
    partitions: Mapping[int, int]


class _Answer(KafkaBytes):  # type: ignore[misc]
    """An answer of ``size`` bytes, received in place. A large one is not copied for the decoder."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size

    def read(self, nbytes: int | None = None) -> Any:
        if nbytes is None and self.size > LARGE:
            return memoryview(self)[self._idx : self.size]
        return super().read(nbytes)

    def again(self, size: int) -> bool:
        """Whether the memory is used for another answer: it is large enough, and nobody looks at it any more."""
        if len(self) < size:
            return False
        try:
            self.append(0)  # which is refused while an array or a view of it is alive
        except BufferError:
            return False
        self.pop()
        self._idx, self.size = 0, size
        return True


class _Memory:
    """Memory of large answers, which is used again: fresh memory costs the system more than what is received."""

    def __init__(self) -> None:
        self._answers: deque[_Answer] = deque(maxlen=SPARE)

    def take(self, size: int) -> _Answer:
        """Room for an answer, which nobody else gets until it is kept."""
        for answer in self._answers:
            if size > LARGE and answer.again(size):
                self._answers = deque((one for one in self._answers if one is not answer), SPARE)
                return answer
        return _Answer(size)

    def keep(self, answer: _Answer) -> None:
        """An answer was decoded: its memory is free once nobody looks at it."""
        if len(answer) > LARGE:
            self._answers.append(answer)


class _Receiving:
    """What a transport receives: whole answers, and why there are no more."""

    def __init__(self, memory: _Memory) -> None:
        self._memory, self._head, self._filled = memory, bytearray(4), 0
        self._answer: _Answer | None = None
        self._begun = False

    def receive(self, sock: Any) -> tuple[list[_Answer], Exception | None]:
        """All answers that are there. An error behind an answer comes with the next call."""
        answers: list[_Answer] = []
        while True:
            target: Any = self._head if self._answer is None else self._answer
            whole = len(self._head) if self._answer is None else self._answer.size
            try:
                with memoryview(target) as room:
                    count = sock.recv_into(room[self._filled : whole])
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return answers, None
            except OSError as error:
                return answers, kp.KafkaConnectionError(f"lost: {error.strerror or error}")
            if not count:
                return answers, kp.KafkaConnectionError(ENDED if self._begun else ENDED_AT_ONCE)
            self._filled += count
            if self._filled < whole:
                continue
            self._filled = 0
            if self._answer is not None:
                answers.append(self._answer)
                self._answer, self._begun = None, True
                continue
            size = int.from_bytes(self._head, "big", signed=True)
            if not 0 < size <= MOST_RECEIVED:
                return answers, kp.InvalidReceiveError(f"an answer of {size} bytes")
            self._answer = self._memory.take(size)


class _Transport(KafkaTCPTransport):  # type: ignore[misc]
    """A plain connection. ``memory``: where its answers are received."""

    memory: _Memory

    async def _read_from_sock(self) -> None:
        receiving = _Receiving(self.memory)
        while self._read and not self._closed:
            await self._net.wait_read(self._sock)
            answers, failed = receiving.receive(self._sock)
            self.last_read = time.monotonic()
            conn = self._protocol
            if answers:
                conn.parser.receive_bytes = partial(_decoded, conn.parser)
                try:
                    conn.data_received(answers)
                    for answer in answers:
                        self.memory.keep(answer)
                    failed = None  # the end comes again, once whoever waits has the answer before it
                except Exception as error:  # noqa: BLE001  whatever a broken answer makes of the decoder
                    failed = kp.KafkaProtocolError(f"an answer that cannot be read: {error}")
            if failed is not None and not self._closed:
                self.abort(error=failed)
                return


class _TlsTransport(KafkaSSLTransport):  # type: ignore[misc]
    """A connection with TLS. ``until``: when its handshake must be done."""

    memory: _Memory
    until: float | None = None
    _read_from_sock = _Transport._read_from_sock

    async def handshake(self) -> None:
        while True:
            try:
                self._sock.do_handshake()
            except ssl.SSLWantReadError:
                await self._net.wait_read(self._sock, timeout_at=self.until)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(self._sock, timeout_at=self.until)
            else:
                return


def _decoded(parser: KafkaProtocol, answers: list[_Answer]) -> list[Any]:
    return [parser._process_response(answer) for answer in answers]


class _Connections(KafkaConnectionManager):  # type: ignore[misc]
    """Tells ``note`` of each connection that is lost, or that never was one, and why."""

    def __init__(self, net: NetworkSelector, note: Callable[[Exception], None], **configs: Any) -> None:
        super().__init__(net, **configs)
        self._note, self._memory = note, _Memory()

    def get_connection(self, node_id: Any, **more: Any) -> KafkaConnection:
        known = self._conns.get(node_id)
        conn = super().get_connection(node_id, **{**more, "refresh_metadata_on_err": False})
        if conn is not known:
            conn.close_future.add_errback(partial(self._lost, node_id))
        return conn

    def _lost(self, node_id: Any, error: Exception) -> None:
        node = self.cluster.broker_metadata(node_id)
        where = "a broker that is gone" if node is None else f"{node.host}:{node.port}"
        self._note(type(error)(f"{where}: {told(error)}"))

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> KafkaTCPTransport:
        sock = await _connected(self._net, node, self.config["socket_options"], timeout_at)
        try:
            if self.ssl_enabled:
                transport = _TlsTransport(self._net, sock, host=node.host, ssl_context=self.config["ssl_context"])
            else:
                transport = _Transport(self._net, sock, host=node.host)
            transport.memory = self._memory
            if not self.ssl_enabled:
                return transport
        except BaseException:
            sock.close()
            raise
        transport.until = timeout_at
        try:
            await transport.handshake()
        except BaseException as error:
            transport.close()
            if isinstance(error, OSError | ValueError | kp.KafkaError):
                words = "no answer in time" if isinstance(error, kp.KafkaTimeoutError) else str(error)
                raise kp.KafkaConnectionError(f"TLS handshake failed: {words}") from None
            raise
        return transport


async def _connected(net: NetworkSelector, node: Any, options: list[tuple[int, int, int]], until: float | None) -> Any:
    """A socket that is connected to one of the addresses of a node; KafkaConnectionError."""
    try:
        addresses = socket.getaddrinfo(node.host, node.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise kp.KafkaConnectionError(f"cannot find this host: {error.strerror or error}") from None
    failed = "it has no address"
    for family, kind, protocol, _, address in addresses:
        sock, done = socket.socket(family, kind, protocol), False
        try:
            sock.setblocking(False)
            for option in options:
                sock.setsockopt(*option)
            code = sock.connect_ex(address)
            if code == errno.EINPROGRESS:
                await net.wait_write(sock, timeout_at=until)
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            done = not code
            if done:
                return sock
            failed = os.strerror(code).lower()
        except kp.KafkaTimeoutError:
            failed = "no answer in time"
        except OSError as error:
            failed = str(error.strerror or error).lower()
        finally:
            if not done:  # also where the connection is no longer wanted
                sock.close()
    raise kp.KafkaConnectionError(f"cannot connect: {failed}")


class Link:
    """Its methods raise KafkaError. One thread uses it at a time; a forked process has to make its own.

    ``note`` is told each loss of a connection. ``leaders`` are those that metadata have told and nobody has forgotten.
    """

    def __init__(self, terms: ClientTerms, bootstrap: str, note: Callable[[Exception], None]) -> None:
        """Connects to nobody yet. SettingsError for files that cannot be used."""
        configs = {**_configs(terms), "bootstrap_servers": [address.strip() for address in bootstrap.split(",")]}
        self._net = NetworkSelector(slow_task_threshold_secs=0)
        self._manager = _Connections(self._net, note, **configs)
        self.seconds = terms.numbers["request.timeout.ms"] / 1000
        self.leaders: dict[TopicPartition, Leader] = {}
        self._tries = 0
        self.close = weakref.finalize(self, _end, self._manager, self._net, os.getpid())
        self.close.atexit = False

    def turn(self, seconds: float, future: Future | None = None) -> None:
        """Lets connections work, until ``future`` is done or the time is over."""
        self._net.poll(timeout_ms=max(0.0, seconds * 1000), future=future)

    def send(self, request: object, node: int) -> Future | None:
        """Sends a request to a broker; None while that broker must not be asked. KafkaError: nobody knows it."""
        if self._manager.connection_delay(node) > 0:
            self.turn(0)
            return None
        conn = self._manager.get_connection(node)
        if conn.paused:
            self.turn(0)
            return None
        future = conn.send_request(request)
        for _ in range(3):  # a task is begun, its socket is found writable, the bytes go
            self.turn(0)
        return future

    def result(self, future: Future, seconds: float, look: Callable[[], None] = lambda: None) -> Any:
        """What comes of a request within the time. ``look`` is called from time to time, and may raise."""
        end = time.monotonic() + seconds
        while not future.is_done:
            left = end - time.monotonic()
            if left <= 0:
                raise kp.KafkaTimeoutError("no answer in time")
            self.turn(min(left, LOOK_SECONDS), future)
            look()
        if future.exception is not None:
            raise future.exception
        return future.value

    def describe(self, topics: Iterable[str] | None) -> Future:
        """Asks which topics there are, by name (None: all), and who leads them. The answer: TopicState by name."""
        return self._manager.call_soon(self._describe, None if topics is None else sorted(topics))

    def forget(self, partition: TopicPartition) -> None:
        """The leader of a partition is another one, or none."""
        self.leaders.pop(partition, None)

    async def _describe(self, topics: list[str] | None) -> dict[str, TopicState]:
        cluster = self._manager.cluster
        node = self._any_node()
        if delay := self._manager.connection_delay(node):
            await self._net.sleep(delay)
        conn = self._manager.get_connection(node)
        await conn.init_future
        while conn.paused:
            await self._net.sleep(LOOK_SECONDS)
        named = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
        answer = await conn.send_request(
            MetadataRequest(
                topics=named,
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            )
        )
        cluster.update_metadata(answer)
        self._tries = 0
        if cluster.is_bootstrap(node) and not conn.in_flight_requests:
            conn.close()  # the same broker is asked by its number from now on
        return {topic.name: self._take(topic) for topic in answer.topics}

    def _any_node(self) -> Any:
        """A broker to ask: one that is connected; the others and those of the settings after it has failed."""
        cluster = self._manager.cluster
        known = [broker.node_id for broker in cluster.brokers()]
        number, self._tries = self._tries, self._tries + 1
        if known and not number and (free := self._manager.least_loaded_node()) is not None:
            return free
        nodes = [*known, *(broker.node_id for broker in cluster.bootstrap_brokers())]
        return nodes[number % len(nodes)]

    def _take(self, topic: Any) -> TopicState:
        """Notes the leaders of a topic."""
        errors = {}
        for partition in topic.partitions:
            failed = partition.error_code or (kp.LeaderNotAvailableError.errno if partition.leader_id < 0 else 0)
            errors[partition.partition_index] = failed
            if not failed or failed == kp.ReplicaNotAvailableError.errno:
                leader = Leader(partition.leader_id, partition.leader_epoch)
                self.leaders[topic.name, partition.partition_index] = leader
        return TopicState(topic.error_code, id_text(topic.topic_id), errors)


def _configs(terms: ClientTerms) -> dict[str, Any]:
    """The settings by kafka-python's names."""
    numbers, login = terms.numbers, terms.login
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    sizes = ((socket.SO_RCVBUF, "receive.buffer.bytes"), (socket.SO_SNDBUF, "send.buffer.bytes"))
    options += [(socket.SOL_SOCKET, option, numbers[name]) for option, name in sizes if numbers[name] >= 0]
    context = tls_context(terms.tls) if terms.protocol.endswith("SSL") else None
    tokens = OidcTokens(login, terms.tls) if login.endpoint else None
    return {
        "client_id": terms.client_id,
        "client_dns_lookup": terms.lookup,
        "security_protocol": terms.protocol,
        "ssl_context": context,
        "sasl_mechanism": login.mechanism or None,
        "sasl_plain_username": login.user or None,
        "sasl_plain_password": login.password if login.user else None,
        "sasl_oauth_token_provider": tokens,
        "socket_options": options,
        "max_in_flight_requests_per_connection": IN_FLIGHT,
        "request_timeout_ms": numbers["request.timeout.ms"],
        "socket_connection_setup_timeout_ms": numbers["socket.connection.setup.timeout.ms"],
        "socket_connection_setup_timeout_max_ms": numbers["socket.connection.setup.timeout.max.ms"],
        "reconnect_backoff_ms": numbers["reconnect.backoff.ms"],
        "reconnect_backoff_max_ms": numbers["reconnect.backoff.max.ms"],
        "connections_max_idle_ms": numbers["connections.max.idle.ms"],
        "metadata_max_age_ms": numbers["metadata.max.age.ms"],
    }


def _end(manager: _Connections, net: NetworkSelector, process: int) -> None:
    """Ends all connections; nothing in a process that was forked from the one that has made them."""
    if process == os.getpid():
        manager.close()
        net.close()


def id_text(topic_id: uuid.UUID | None) -> str:
    """A topic's id as positions have it; "" for none."""
    octets = b"" if topic_id is None else topic_id.bytes
    return urlsafe_b64encode(octets).decode().rstrip("=") if any(octets) else ""


def id_of(text: str) -> uuid.UUID:
    """The other way round."""
    return uuid.UUID(bytes=urlsafe_b64decode(text + "=="))
