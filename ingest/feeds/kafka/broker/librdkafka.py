"""The C library below ``confluent_kafka``, asked directly: its batch call makes no Python object a message.

Only functions of the public header ``rdkafka.h`` are used. The library is the one that the Python client has loaded; it
is used only where its version is the one that the client names, and where messages that it makes itself, without a
broker, read as they should. Else one line in the log says why, and messages come as objects, with the same results.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise

import confluent_kafka
import numpy as np
from confluent_kafka import KafkaError, KafkaException, cimpl

from sparkhaven.store.native.abi import MessageLayout
from sparkhaven.store.native.buffers import address
from sparkhaven.store.native.kafka_messages import MessageFacts, frame, look
from sparkhaven.store.native.library import core

LOG = logging.getLogger("sparkhaven.kafka")
VERSIONS = range(0x01090000, 0x03000000)  # with one layout of messages, and all functions below
CONSUMER = 1
_PRODUCER, _COPY, _DELIVERY, _PURGE_QUEUE, _PURGED, _NO_OFFSET = 0, 2, 1, 1, -152, -1001
_TEXT = 512
_SENT = [(7, b"a value", b"the key"), (7, None, b""), (7, b"", None), (7, b"x\n", None)]

_int, _long, _size, _at, _text = ctypes.c_int, ctypes.c_int64, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p
_SIGNATURES: dict[str, tuple[type | None, list[type]]] = {
    "version": (_int, []),
    "conf_new": (_at, []),
    "conf_destroy": (None, [_at]),
    "conf_set": (_int, [_at, _text, _text, _text, _size]),
    "conf_set_error_cb": (None, [_at, _at]),
    "conf_set_events": (None, [_at, _int]),
    "new": (_at, [_int, _at, _text, _size]),
    "destroy": (None, [_at]),
    "poll_set_consumer": (_int, [_at]),
    "queue_get_consumer": (_at, [_at]),
    "queue_get_main": (_at, [_at]),
    "queue_destroy": (None, [_at]),
    "queue_poll": (_at, [_at, _int]),
    "consume_batch_queue": (ctypes.c_ssize_t, [_at, _int, _at, _size]),
    "last_error": (_int, []),
    "err2str": (_text, [_int]),
    "message_errstr": (_text, [_at]),
    "message_timestamp": (_long, [_at, _at]),
    "message_leader_epoch": (ctypes.c_int32, [_at]),
    "message_destroy": (None, [_at]),
    "topic_partition_list_new": (_at, [_int]),
    "topic_partition_list_add": (_at, [_at, _text, ctypes.c_int32]),
    "topic_partition_list_set_offset": (_int, [_at, _text, ctypes.c_int32, _long]),
    "topic_partition_set_leader_epoch": (None, [_at, ctypes.c_int32]),
    "topic_partition_list_destroy": (None, [_at]),
    "assign": (_int, [_at, _at]),
    "query_watermark_offsets": (_int, [_at, _text, ctypes.c_int32, _at, _at, _int]),
    "consumer_close": (_int, [_at]),
    "topic_new": (_at, [_at, _text, _at]),
    "topic_destroy": (None, [_at]),
    "produce": (_int, [_at, ctypes.c_int32, _int, _at, _size, _at, _size, _at]),
    "purge": (_int, [_at, _int]),
    "event_message_array": (_size, [_at, _at, _size]),
    "event_destroy": (None, [_at]),
}


class ClientNotUsableError(Exception):
    """Why the library cannot be used here."""


class RefusedError(Exception):
    """What the library says of a setting that it does not take."""


class Librdkafka:
    """The functions, without ``rd_kafka_`` before their names. NotUsableError if one is missing."""

    def __init__(self, path: str) -> None:
        try:
            library = ctypes.CDLL(path)  # finds the functions of what the Python client is linked with
            for name, (result, arguments) in _SIGNATURES.items():
                function = getattr(library, f"rd_kafka_{name}")
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError) as error:
            raise ClientNotUsableError(f"its C library does not answer: {error}") from error
        self._library = library
        self.time_of = ctypes.cast(library.rd_kafka_message_timestamp, _at).value or 0
        self.free = ctypes.cast(library.rd_kafka_message_destroy, _at).value or 0

    def __getattr__(self, name: str) -> ctypes._NamedFuncPointer:
        if name not in _SIGNATURES:
            raise AttributeError(name)
        function: ctypes._NamedFuncPointer = getattr(self._library, f"rd_kafka_{name}")
        return function

    def conf(self, settings: Mapping[str, object]) -> int:
        """A configuration of these settings, which ``client`` takes or ``conf_destroy`` ends. RefusedError."""
        conf: int = self.conf_new()
        words = ctypes.create_string_buffer(_TEXT)
        names = sorted(settings, key=lambda name: name != "plugin.library.paths")  # brings settings of its own
        for name in names:
            value = settings[name]
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if "\0" in name + text or self.conf_set(conf, name.encode(), text.encode(), words, _TEXT) != 0:
                self.conf_destroy(conf)
                raise RefusedError(words.value.decode("utf-8", "replace"))
        return conf

    def client(self, kind: int, conf: int) -> int:
        """A client of a configuration, which belongs to it then; RefusedError."""
        words = ctypes.create_string_buffer(_TEXT)
        client: int | None = self.new(kind, conf, words, _TEXT)
        if not client:
            self.conf_destroy(conf)
            raise RefusedError(words.value.decode("utf-8", "replace"))
        return client

    def error(self, code: int, text: bytes | None = None) -> KafkaException:
        words = text if text is not None else self.err2str(code)
        return KafkaException(KafkaError(code, (words or b"").decode("utf-8", "replace")))


@lru_cache(maxsize=1)
def librdkafka() -> Librdkafka | None:
    """The library of this process, None where it cannot be used. The first call loads and proves it."""
    if core() is None:
        return None  # which that call has logged
    try:
        library = Librdkafka(cimpl.__file__)
        _prove(library)
    except ClientNotUsableError as error:
        LOG.warning("librdkafka is not asked directly (%s). Results are the same, reading takes longer", error)
        return None
    return library


def _prove(library: Librdkafka) -> None:
    """NotUsableError unless it is the client's own library, and its messages read as they should."""
    version, named = library.version(), confluent_kafka.libversion()[1]
    if version != named or version not in VERSIONS:
        raise ClientNotUsableError(f"it is version {version:#x}, the client has {named:#x}")
    try:
        conf = library.conf({"log_level": 2})
        library.conf_set_events(conf, _DELIVERY)
        client = library.client(_PRODUCER, conf)
    except RefusedError as error:
        raise ClientNotUsableError(f"it makes no client: {error}") from error
    queue, topic = library.queue_get_main(client), library.topic_new(client, b"proof", None)
    returned: list[tuple[int, bytes | None, bytes | None]] = []
    try:
        for partition, value, key in _SENT:
            payload = value, len(value or b""), key, len(key or b"")
            library.produce(topic, partition, _COPY, *payload, None)
        library.purge(client, _PURGE_QUEUE)
        while len(returned) < len(_SENT):
            event = library.queue_poll(queue, 1000)
            if not event:
                raise ClientNotUsableError("it does not return messages that were purged")
            try:
                returned += _returned(library, event)
            finally:
                library.event_destroy(event)
    finally:
        library.topic_destroy(topic)
        library.queue_destroy(queue)
        library.destroy(client)
    if returned != _SENT:
        raise ClientNotUsableError(f"its messages are not laid out as in rdkafka.h: {returned}, expected {_SENT}")


def _returned(library: Librdkafka, event: int) -> list[tuple[int, bytes | None, bytes | None]]:
    """Partition, value and key of the messages of an event, which were purged; NotUsableError if they were not."""
    pointers = np.zeros(len(_SENT), np.uint64)
    pointers = pointers[: library.event_message_array(event, address(pointers), len(pointers))]
    facts = MessageFacts.room(len(pointers))
    look(pointers, 0, library.time_of, facts)
    if (facts.errors != _PURGED).any() or (facts.offsets != _NO_OFFSET).any():
        raise ClientNotUsableError(f"purged messages have the errors {facts.errors} and the offsets {facts.offsets}")
    messages = [MessageLayout.from_address(pointer) for pointer in pointers.tolist()]
    parts = []
    for lengths, keys in (
        ([-1 if message.payload is None else message.length for message in messages], False),
        ([-1 if message.key is None else message.key_length for message in messages], True),
    ):
        try:
            data, ends = frame(pointers, np.array(lengths, np.int64), keys=keys)
        except (ValueError, OverflowError) as error:  # of another layout any number may be a length
            raise ClientNotUsableError(f"its messages are not laid out as in rdkafka.h: {error}") from error
        texts = iter([data[start : stop - 1] for start, stop in pairwise(ends.tolist())])
        parts.append([None if length < 0 else next(texts) for length in lengths])
    return [(message.partition, value, key) for message, value, key in zip(messages, *parts, strict=True)]
