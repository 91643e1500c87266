"""Commands on streams: new files, epochs that go, streams that go, and their quarantine."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from tests.crash.histories.operations.base import Change, Operation, any_stream, on
from tests.crash.histories.world import Feed, Site, World, feed_more


def ingest(rng: random.Random, site: Site, world: World) -> Operation:
    """New files of a stream, into each of its tables."""
    feed = world.feeds[rng.choice([*world.feeds])]
    feed_more(rng, site, world, feed)
    return Operation("ingest", ("ingest", str(site.stream(feed.stream)), "--once"), tuple(_waiting(world, feed)))


def _waiting(world: World, feed: Feed) -> Iterable[Change]:
    """A step for each file and table that has not taken it."""
    taken = {table: world.tables[table].streams[feed.stream].now.files for table in feed.tables}
    for table in feed.tables:
        if len(feed.tables) > 1 and not world.tables[table].streams[feed.stream].exists:
            yield partial(_begin, table, feed.stream)
    for number in range(min(taken.values()), len(feed.files)):
        for table in feed.tables:
            if taken[table] <= number:
                yield partial(_take, table, feed, number)


def _begin(table: str, stream: str, world: World) -> None:
    """The first epoch of one of several tables has no rows: it says where the table begins."""
    state = world.tables[table].streams[stream]
    state.added[state.newest + 1] = {}
    state.commit(state.now)


def _take(table: str, feed: Feed, number: int, world: World) -> None:
    model = world.tables[table]
    model.ingest_file(feed.stream, *feed.rows_of(model, number))


def rollback(rng: random.Random, site: Site, world: World) -> Operation | None:
    """To any epoch that is kept."""
    model, stream = any_stream(rng, world)
    state = model.streams[stream]
    if not state.exists:
        return None
    epoch = rng.choice([*([0] if 0 in state.epochs and not state.base else []), *state.older] or [state.newest])
    words = ("epochs", "rollback", model.name, stream, "--to", str(epoch))
    change = partial(on, model.name, lambda after: after.rollback(stream, epoch))
    return Operation("rollback", words, (change,), partial(_is_after, model.name, stream, state.newest))


def undo(rng: random.Random, site: Site, world: World) -> Operation | None:
    """A recent epoch, or any number."""
    model, stream = any_stream(rng, world)
    state = model.streams[stream]
    if not state.exists:
        return None
    epoch = rng.choice([*sorted(state.added)[-4:], rng.randint(1, state.newest + 1)])
    words = ("epochs", "undo", model.name, stream, "--epoch", str(epoch))
    change = partial(on, model.name, lambda after: after.undo(stream, epoch))
    return Operation("undo", words, (change,), partial(_is_after, model.name, stream, state.newest))


def _is_after(table: str, stream: str, epoch: int, root: Path) -> bool:
    return load_stream(StreamPlace(Fs(), Layout(root), TableName.parse(table), stream)).epoch > epoch


def remove_stream(rng: random.Random, site: Site, world: World) -> Operation | None:
    """One of which no row is left; its files are moved away, so that a new one of its name begins with new files."""
    model, stream = any_stream(rng, world)
    feed = world.feeds[stream]
    if len(feed.tables) > 1 or not model.streams[stream].exists:
        return None

    def forget(after: World) -> None:
        for path in (site.base / stream).iterdir():
            path.unlink()
        feed.files.clear()

    change = partial(on, model.name, lambda after: after.remove_stream(stream))
    words = ("streams", "remove", model.name, stream)
    return Operation("streams remove", words, (change,), again=(2,), after=forget)


def drop_quarantine(rng: random.Random, site: Site, world: World) -> Operation | None:
    """All rejected rows of a stream, which are no rows of the table."""
    model, stream = any_stream(rng, world)
    if not model.streams[stream].exists:
        return None
    return Operation("quarantine drop", ("quarantine", "drop", model.name, stream, "--all"))
