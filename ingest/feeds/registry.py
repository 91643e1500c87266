"""The feeds there are: one row for each of ours, and whatever class a stream file names as ``module:attribute``.

Classes are loaded when they are asked for, so that a command pays only for the feed that it uses. **A name with a
colon loads code**: only the stream file can say it, in plain text, and the module has to be importable by Python as it
is; nothing is searched for, downloaded, or put on the path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any

from sparkhaven.ingest.feeds.base import Feed, PlannedFeed
from sparkhaven.ingest.settings import SettingsModel
from sparkhaven.ingest.spec import StreamSpec
from sparkhaven.store.errors import SettingsError, missing_extra

PLANNED: Mapping[str, str] = {
    "files": "sparkhaven.ingest.feeds.files.feed:FilesFeed",
    "kafka": "sparkhaven.ingest.feeds.kafka.feed:KafkaFeed",
    "delta": "sparkhaven.ingest.feeds.delta.feed:DeltaFeed",
}
"""Feeds that a stream file can name by one word."""

GIVEN: Mapping[str, str] = {"frames": "sparkhaven.ingest.feeds.frames:FramesFeed"}
"""Feeds whose rows a program hands over."""

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*\Z", re.ASCII)


def feed_of(spec: StreamSpec) -> Feed[Any, Any]:
    return feed_class(spec.feed.traits.feed)(spec)


def planned_feed(spec: StreamSpec) -> PlannedFeed[Any, Any]:
    return planned_class(spec.feed.traits.feed)(spec)


def is_foreign(name: object) -> bool:
    """Whether a name of a feed is that of a class of the user's: ``module:attribute``."""
    return isinstance(name, str) and ":" in name


def settings_of(name: str) -> type[SettingsModel]:
    """The model of ``[feed]`` for a type of feed."""
    return planned_class(name).settings


@lru_cache
def planned_class(name: str) -> type[PlannedFeed[Any, Any]]:
    """The class of a feed that plans; SettingsError for a name that is of none."""
    loaded = feed_class(name)
    if not issubclass(loaded, PlannedFeed):
        raise _unusable(name, "this feed cannot be named in a stream file", loaded.__name__)
    return loaded


@lru_cache
def feed_class(name: str) -> type[Feed[Any, Any]]:
    """The class by its name; SettingsError for a name that is of none."""
    location = PLANNED.get(name) or GIVEN.get(name) or name
    if not _NAME.match(location):
        raise _unusable(name, "unknown type of feed", name)
    module, _, attribute = location.partition(":")
    try:
        loaded = getattr(import_module(module), attribute, None)
    except ImportError as error:
        missing = missing_extra(error)
        if missing is not None and name in PLANNED:
            raise missing from error
        raise _unusable(name, "the module of a feed cannot be imported", str(error)) from error
    if not isinstance(loaded, type) or not issubclass(loaded, Feed):
        words = "nothing of that name" if loaded is None else f"{type(loaded).__name__} {attribute}"
        raise _unusable(name, "the module has no such feed", words)
    return loaded


def _unusable(name: str, problem: str, cause: str) -> SettingsError:
    return SettingsError(
        problem,
        where="feed.type",
        expected=f'{", ".join(PLANNED)}, or "module:Class" with a subclass of sparkhaven.ingest.feeds.base.PlannedFeed',
        found=cause if cause == name else f"{cause}, for {name}",
        hint="install the module, or put its directory on PYTHONPATH, for this command and for Spark's workers",
    )
