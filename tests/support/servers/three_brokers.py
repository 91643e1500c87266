"""Three brokers of one cluster on loopback: leaders move when one is stopped, killed or asked to give them up."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from operator import methodcaller
from pathlib import Path

from confluent_kafka.admin import AdminClient

from sparkhaven.store.io.fs import Fs
from tests.support.kafka.topics import QUIET
from tests.support.servers.broker import START_SECONDS, VERSION, Broker, Node, free_port

QUICK = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "300",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "replica.lag.time.max.ms": "3000",
}


class ThreeBrokers:
    """Brokers 1 to 3, each in a rack of its own: ``rack-1`` to ``rack-3``."""

    def __init__(self, directory: Path, version: str = VERSION) -> None:
        ports = [free_port() for _ in range(3)]
        voters = ",".join(f"{n}@127.0.0.1:{port}" for n, port in enumerate(ports, 1))
        first = Node(1, ports[0], voters)
        nodes = [Node(n, port, voters, first.cluster) for n, port in enumerate(ports, 1)]
        self.brokers = [
            Broker(
                Fs(),
                directory / f"broker-{node.number}",
                settings={**QUICK, "broker.rack": f"rack-{node.number}"},
                version=version,
                node=node,
            )
            for node in nodes
        ]

    @property
    def bootstrap(self) -> str:
        """All addresses."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    def start(self, numbers: Sequence[int] = (1, 2, 3)) -> None:
        """Starts brokers side by side: none is ready before most controllers are. Each then knows all that run."""
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(methodcaller("start"), [self.broker(number) for number in numbers]))
        self._wait_until_all_are_known()

    def stop(self) -> None:
        """Ends them all at once: one that is left alone does not end by itself."""
        for broker in self.brokers:
            broker.kill()

    def broker(self, number: int) -> Broker:
        """One of them."""
        return self.brokers[number - 1]

    def leader(self, topic: str, partition: int = 0) -> int:
        """Who leads a partition, as the cluster tells it now."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})
        number: int = admin.list_topics(topic, timeout=30).topics[topic].partitions[partition].leader
        return number

    def _wait_until_all_are_known(self) -> None:
        """A broker that has just started is told late, and librdkafka drops whom an answer does not name.

        What was asked of such a broker fails with ``_DESTROY_BROKER``, at once, and is not asked again.
        """
        running = {number for number, broker in enumerate(self.brokers, 1) if broker.pid is not None}
        end = time.monotonic() + START_SECONDS
        for number in running:
            admin = AdminClient({"bootstrap.servers": self.broker(number).bootstrap, **QUIET})
            while not running <= (known := set(admin.list_topics(timeout=30).brokers)):
                assert time.monotonic() < end, f"broker {number} knows {known} of {running}"
                time.sleep(0.05)


@contextmanager
def three_brokers(directory: Path, version: str = VERSION) -> Iterator[ThreeBrokers]:
    """A running one."""
    made = ThreeBrokers(directory, version)
    try:
        made.start()
        yield made
    finally:
        made.stop()
