"""What is known of a feed without opening it: its name, the kind of its splits, what the position of a row can tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

FILE_META: Mapping[str, frozenset[str]] = {
    "file": frozenset({"String"}),
    "line": frozenset({"int", "long"}),
    "timestamp": frozenset({"Instant"}),
    "receive_time": frozenset({"Instant"}),
}
KAFKA_META: Mapping[str, frozenset[str]] = {
    "topic": frozenset({"String"}),
    "partition": frozenset({"short", "int", "long"}),
    "offset": frozenset({"long"}),
    "timestamp": frozenset({"Instant"}),
    "receive_time": frozenset({"Instant"}),
    "key": frozenset({"String"}),
    "header": frozenset({"String"}),
}
FILES = "files"


@dataclass(frozen=True, slots=True)
class Traits:
    """``feed`` is the row in ``ingest.feeds.registry``, or ``module:attribute``; ``split`` the class of its splits.

    ``unit`` is what progress counts (``files``: splits; anything else: the offsets of ranges). ``meta``: columns that
    the position of a row can fill, with the types that hold them; ``internal``: those that can name internal
    partitions; ``keys``: whether rows have a key beside their value.
    """

    feed: str
    split: type
    unit: str
    meta: Mapping[str, frozenset[str]] = field(default_factory=dict)
    internal: tuple[str, ...] = ()
    keys: bool = False


class FeedOptions(Protocol):
    """The settings of one feed: a frozen value that pickles. ``path`` is what it reads, in messages for people."""

    traits: ClassVar[Traits]

    @property
    def path(self) -> str:
        """What the feed reads."""
