"""Topics with known content, by clients that the data plane does not use for reading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

_NUMBERS = count()
QUIET = {"log_level": 3}


def make_topic(
    bootstrap: str,
    partitions: int = 1,
    settings: Mapping[str, str] | None = None,
    name: str = "",
    replicas: int = 1,
) -> str:
    """A new topic; its name."""
    name = name or f"t{next(_NUMBERS)}"
    asked = NewTopic(name, partitions, replicas, config=dict(settings or {}))
    admin = _admin(bootstrap)  # must outlive its answer
    admin.create_topics([asked])[name].result(30)
    return name


def drop_topic(bootstrap: str, name: str) -> None:
    """Deletes it."""
    admin = _admin(bootstrap)
    admin.delete_topics([name])[name].result(30)


def more_partitions(bootstrap: str, name: str, partitions: int) -> None:
    """Raises the number of partitions."""
    admin = _admin(bootstrap)
    admin.create_partitions([NewPartitions(name, partitions)])[name].result(30)


def delete_before(bootstrap: str, name: str, partition: int, offset: int) -> None:
    """What retention does, at once."""
    admin = _admin(bootstrap)
    for answer in admin.delete_records([TopicPartition(name, partition, offset)]).values():
        answer.result(30)


def send(bootstrap: str, topic: str, values: Iterable[bytes | str | None], partition: int = 0, **more: object) -> None:
    """Messages in order into one partition; ``key`` and ``timestamp`` (ms) may be given for all of them."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **QUIET})
    for value in values:
        producer.produce(topic, value, partition=partition, **more)
    assert producer.flush(30) == 0


def send_in_transactions(bootstrap: str, topic: str, groups: Iterable[tuple[bool, list[bytes]]]) -> None:
    """Each group is one transaction of partition 0: committed if its flag is set, else aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"x-{topic}", **QUIET})
    producer.init_transactions(30)
    for committed, values in groups:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        producer.flush(30)
        if committed:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, **QUIET})
