"""A partition's messages without an object for each: librdkafka's batch call, and blocks of framed payloads.

Messages stay where librdkafka has put them until a block is full; then their payloads are copied once, into the bytes
that decoders read, and they are given back. This class owns each message from the call that brought it until then; what
is left when it is closed, or no longer used, it gives back before the client ends.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from dataclasses import dataclass

import numpy as np
from confluent_kafka import KafkaError

from sparkhaven.ingest.feeds.kafka.broker.clients import Troubles, consumer_settings, refused
from sparkhaven.ingest.feeds.kafka.broker.librdkafka import CONSUMER, Librdkafka, RefusedError
from sparkhaven.ingest.feeds.kafka.framed import FramedMessages, FramedPart
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.store.native.buffers import address
from sparkhaven.store.native.kafka_messages import Longs, MessageFacts, Pointers, frame, look, release

_MS = 1000

_ErrorCallback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


@dataclass(slots=True)
class _Handles:
    """A client of the C library, its queue, and the messages that it has handed out: ``pointers[first:stop]``."""

    library: Librdkafka
    client: int
    queue: int
    callback: object  # must live as long as the client
    process: int
    pointers: Pointers
    first: int = 0
    stop: int = 0

    def release(self, count: int | None = None) -> None:
        """Gives back the first messages; all by default."""
        until = self.stop if count is None else self.first + count
        release(self.pointers[self.first : until], self.library.free)
        self.first = until

    def end(self) -> None:
        """Gives back all messages and ends the client; nothing in a process that was forked from its own."""
        if self.client and self.process == os.getpid():
            self.release()
            client, self.client = self.client, 0
            self.library.consumer_close(client)
            self.library.queue_destroy(self.queue)
            self.library.destroy(client)


class BatchClient:
    """A ``PartitionClient`` by librdkafka's batch call."""

    def __init__(self, library: Librdkafka, feed: KafkaOptions, troubles: Troubles, topic: str, partition: int) -> None:
        """SettingsError for settings that librdkafka refuses."""
        self._library, self._topic, self._partition, self._limits = library, topic.encode(), partition, feed.limits
        self._handles = _open(library, feed, troubles)
        self._facts, self._size = MessageFacts.room(0), 0
        self.last = self.end = -1
        self.close = weakref.finalize(self, self._handles.end)

    def assign(self, offset: int, epoch: int = -1) -> None:
        self._release(self._handles.stop - self._handles.first)
        self.last = self.end = -1
        library, partition = self._library, (self._topic, self._partition)
        wanted = library.topic_partition_list_new(1)
        try:
            entry = library.topic_partition_list_add(wanted, *partition)
            library.topic_partition_set_leader_epoch(entry, epoch)
            library.topic_partition_list_set_offset(wanted, *partition, offset)
            # not a seek: an assignment leaves no message of the old position in the client's queue
            failed = library.assign(self._handles.client, wanted)
        finally:
            library.topic_partition_list_destroy(wanted)
        if failed:
            raise library.error(failed)

    def fetch(self, count: int, seconds: float) -> None:
        handles, library = self._handles, self._library
        # a call returns when it has as many as it asks for: more than are due may not come
        count = min(count, self._limits.fetched)
        self._make_room(count)
        room = address(handles.pointers) + handles.stop * handles.pointers.itemsize
        fetched = library.consume_batch_queue(handles.queue, round(seconds * _MS), room, count)
        if fetched < 0:
            raise library.error(library.last_error())
        if not fetched:
            return
        start, handles.stop = handles.stop, handles.stop + fetched
        errors = look(
            handles.pointers[start : handles.stop],
            self._partition,
            library.time_of,
            self._facts.part(slice(start, handles.stop)),
        )
        if errors:
            self._take_events(start)
        if handles.stop > start:
            self.last = int(self._facts.offsets[handles.stop - 1])
            self._size += int(_sizes(self._facts.part(slice(start, handles.stop))).sum())

    def skip(self, start: int) -> bool:
        handles = self._handles
        before = int(np.searchsorted(self._facts.offsets[handles.first : handles.stop], start))
        if handles.first + before == handles.stop:
            return False
        self._release(before)
        return True

    def take(self, stop: int, *, whole: bool) -> FramedMessages | None:
        handles, limits = self._handles, self._limits
        if not whole and handles.stop - handles.first < limits.messages and self._size < limits.bytes:
            return None
        facts = self._facts.part(slice(handles.first, min(handles.stop, handles.first + limits.messages)))
        count = int(np.searchsorted(facts.offsets, stop))
        if not count:
            return None
        sizes = np.cumsum(_sizes(facts))
        count = min(count, int(np.searchsorted(sizes, limits.bytes)) + 1)  # the last one may be large
        facts, pointers = facts.part(slice(count)), handles.pointers[handles.first : handles.first + count]
        values = FramedPart(*frame(pointers, facts.values, keys=False), facts.values >= 0)
        keys = FramedPart(*frame(pointers, facts.keys, keys=True), facts.keys >= 0)
        epoch = self._library.message_leader_epoch(int(pointers[-1]))
        self._release(count)
        return FramedMessages(facts.offsets.copy(), facts.times.copy(), values, keys, epoch=epoch)

    def bounds(self, patience: float) -> tuple[int, int]:
        low, high = ctypes.c_int64(), ctypes.c_int64()
        addresses = ctypes.addressof(low), ctypes.addressof(high)
        arguments = self._topic, self._partition, *addresses, round(patience * _MS)
        failed = self._library.query_watermark_offsets(self._handles.client, *arguments)
        if failed:
            raise self._library.error(failed)
        return low.value, high.value

    def _release(self, count: int) -> None:
        first = self._handles.first
        self._handles.release(count)
        self._size -= int(_sizes(self._facts.part(slice(first, first + count))).sum())

    def _make_room(self, count: int) -> None:
        """Places for further messages: at the front, where messages were given back, or in larger arrays."""
        handles, window = self._handles, slice(self._handles.first, self._handles.stop)
        number = window.stop - window.start
        if window.stop + count <= len(handles.pointers):
            return
        size = max(len(handles.pointers), 2 * (number + count))
        pointers, facts = np.empty(size, np.uint64), MessageFacts.room(size)
        pointers[:number] = handles.pointers[window]
        facts.part(slice(number)).take(self._facts.part(window))
        handles.pointers, handles.first, handles.stop = pointers, 0, number
        self._facts = facts

    def _take_events(self, start: int) -> None:
        """Takes what has an error out of the last messages; KafkaException for all but the end of the partition."""
        handles = self._handles
        new = slice(start, handles.stop)
        facts, pointers = self._facts.part(new), handles.pointers[new].copy()
        odd = facts.errors != 0
        try:
            for pointer, code, offset in zip(pointers[odd], facts.errors[odd], facts.offsets[odd], strict=True):
                if code != KafkaError._PARTITION_EOF:
                    raise self._library.error(int(code), self._library.message_errstr(int(pointer)))
                self.end = max(self.end, int(offset))
        finally:
            good = int(np.count_nonzero(~odd))
            handles.pointers[start : start + good] = pointers[~odd]
            handles.stop = start + good
            self._facts.part(slice(start, handles.stop)).take(facts.part(~odd))
            release(pointers[odd], self._library.free)


def _sizes(facts: MessageFacts) -> Longs:
    return np.maximum(facts.values, 0) + np.maximum(facts.keys, 0)


def _open(library: Librdkafka, feed: KafkaOptions, troubles: Troubles) -> _Handles:
    def note(client: int, code: int, text: bytes | None, opaque: int) -> None:
        troubles.note(library.error(code, text).args[0])

    callback = _ErrorCallback(note)
    try:
        conf = library.conf(consumer_settings(feed))
        library.conf_set_error_cb(conf, ctypes.cast(callback, ctypes.c_void_p))
        client = library.client(CONSUMER, conf)
    except RefusedError as error:
        raise refused(feed, f"Failed to create consumer: {error}") from None
    library.poll_set_consumer(client)
    queue = library.queue_get_consumer(client)
    return _Handles(library, client, queue, callback, os.getpid(), np.empty(0, np.uint64))


def reason_for_objects(library: Librdkafka, feed: KafkaOptions) -> str | None:
    """Why the messages of a feed have to come as objects; None where they need not.

    SettingsError for settings that are ours to choose.
    """
    settings = consumer_settings(feed)
    if any(name.startswith("sasl.oauthbearer") or "OAUTHBEARER" in str(value) for name, value in settings.items()):
        return "tokens for OAUTHBEARER are the Python client's"
    try:
        library.conf_destroy(library.conf(settings))
    except RefusedError as error:
        return f"its own settings differ: {feed.client.hide(str(error))}"
    return None
