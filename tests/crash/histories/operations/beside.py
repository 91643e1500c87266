"""Steps beside commands: readers that stay open, older logs that are put back, a stream whose rule changes."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

from sparkhaven import open_table
from sparkhaven.store.layout import Layout, TableName
from tests.crash.histories.apart import Fault
from tests.crash.histories.predicates import draw_predicate
from tests.crash.histories.readers import PinnedReader, difference, expected_rows, require, rows_now
from tests.crash.histories.world import feed_more, indexed

if TYPE_CHECKING:
    from tests.crash.histories.history import History

PINNED = 3  # readers that are open at once


def pin(history: History, rng: random.Random, fault: Fault | None) -> None:
    """Opens a table, which is asked again after every later step."""
    written = [*history.world.written()]
    if not written:
        return
    table = rng.choice(written)
    rows = table.visible()
    filters = [draw_predicate(rng, table.columns, rows, [*indexed(table)]) for _ in range(2)]
    opened = open_table(history.site.root, table.name)
    history.tell(f"a reader opens {table.name}")
    history.pinned.append(PinnedReader(opened, table.columns, rows, history.number, filters))
    del history.pinned[:-PINNED]
    history.tally.done["readers opened"] += 1


def another_rule(history: History, rng: random.Random, fault: Fault | None) -> None:
    """A stream whose days are those of another zone takes no row beside those that are there."""
    site, world = history.site, history.world
    feed = world.feeds[rng.choice([*world.feeds])]
    if not all(world.tables[table].streams[feed.stream].exists for table in feed.tables):
        return
    feed_more(rng, site, world, feed)
    file = site.stream(feed.stream)
    settings = file.read_text()
    file.write_text(settings.replace('zone = "UTC"', 'zone = "Asia/Tokyo"'))
    history.tell(f"ingest {file.name} --once, with the days of another zone")
    ended = history.command(("ingest", str(file), "--once"))
    file.write_text(settings)
    require(ended.code == 2, f"ended with {ended.code}: {ended.output}")
    history.tally.done["another rule refused"] += 1


def keep_logs(history: History, rng: random.Random, fault: Fault | None) -> None:
    """A backup of the commit logs of a table."""
    name = rng.choice([*history.world.tables])
    streams = Layout(history.site.root).streams(TableName.parse(name))
    if streams.exists():
        copy = history.site.fresh("logs")
        history.tell(f"copy the logs of {name} to {copy.name}")
        shutil.copytree(streams, copy, symlinks=True)
        history.logs.append((name, copy))


def stale_logs(history: History, rng: random.Random, fault: Fault | None) -> None:
    """Older logs are put back in a copy of the root: a rebuilt log has the rows of now, or it is refused."""
    if not history.logs:
        return
    name, copy = rng.choice(history.logs)
    model, trial = history.world.tables[name], history.site.fresh("trial")
    stream = rng.choice([*model.streams])
    history.tell(f"put {copy.name} back in a copy of the root, recover {name} {stream} --from-locations")
    shutil.copytree(history.site.root, trial, symlinks=True)
    streams = Layout(trial).streams(TableName.parse(name))
    for file in streams.glob(f"{stream}.*"):
        file.unlink()
    for file in copy.glob(f"{stream}.*"):
        shutil.copy2(file, streams, follow_symlinks=False)
    words = ("recover", name, stream, "--from-locations", rng.choice(("--accept-positions", "--back-to-known")))
    ended = history.command(words, root=trial)
    history.story[-1] += f" -> {ended.code}"
    if ended.code == 0 and words[-1] == "--accept-positions":
        found, expected = rows_now(trial, model), expected_rows(model)
        require(found == expected, f"the rebuilt log of {name}: {difference(found, expected)}")
    history.tally.done["logs rebuilt" if ended.code == 0 else "logs not rebuilt"] += 1
    shutil.rmtree(trial)
