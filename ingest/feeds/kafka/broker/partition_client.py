"""What reads one partition: by the Python client, by librdkafka's batch call, or by requests of our own."""

from __future__ import annotations

from typing import Protocol, TypeVar

Some = TypeVar("Some", covariant=True)  # messages that are handed out together


class PartitionClient(Protocol[Some]):
    """A consumer of one partition, with what it has fetched and not handed out.

    ``last`` is the offset of the last message since ``assign``; -1 where there is none. ``end``: whatever there is
    before this offset was fetched; -1 where that is not known.
    """

    @property
    def last(self) -> int:
        """See above."""

    @property
    def end(self) -> int:
        """See above."""

    def assign(self, offset: int, epoch: int = -1) -> None:
        """Begins anew at an offset, whose message is of that leader epoch; a log without it is a KafkaException."""

    def fetch(self, count: int, seconds: float) -> None:
        """Further messages, as come within the time, of ``count`` that are due; KafkaException."""

    def skip(self, start: int) -> bool:
        """Lets messages before ``start`` go; False where none at or after it was fetched."""

    def take(self, stop: int, *, whole: bool) -> Some | None:
        """Messages before ``stop``, None where they are too few; ``whole``: those that there are, None for none."""

    def bounds(self, patience: float) -> tuple[int, int]:
        """First offset and end of the partition, as the broker knows them; KafkaException."""

    def close(self) -> object:
        """Ends the consumer."""
