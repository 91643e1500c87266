"""The flights of the demo as messages of a topic: one JSON object each, keyed by origin, so that a partition keeps
the order of its origins."""

from __future__ import annotations

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from demo import feed as flights
from sparkhaven.store.errors import RetryableFeedError

TOPIC = "flights"
PARTITIONS = 3
SEND_SECONDS = 120.0


def fill(bootstrap: str, topic: str, *, months: frozenset[int] | None = None) -> int:
    """Creates the topic and sends the flights; returns the number of messages, 0 for a topic that exists."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    if topic in admin.list_topics(timeout=30).topics:
        return 0
    try:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    except KafkaException as error:
        raise RetryableFeedError("the topic cannot be created", where=topic, found=error.args[0].str()) from None
    return send(bootstrap, topic, months=months)


def send(bootstrap: str, topic: str, *, months: frozenset[int] | None = None) -> int:
    """Sends the flights of some months (default: all); the number of messages, every one acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 50,
            "compression.type": "lz4",
            "log_level": 3,
        }
    )
    sent = 0
    for row in flights.rows():
        if months is not None and int(row["month"]) not in months:
            continue
        while True:
            try:
                producer.produce(topic, flights.json_line(row)[:-1], row["origin"])
                break
            except BufferError:
                producer.poll(0.1)
        sent += 1
    unsent = producer.flush(SEND_SECONDS)
    if unsent:
        raise RetryableFeedError("messages were not acknowledged", where=topic, expected=sent, found=sent - unsent)
    return sent
