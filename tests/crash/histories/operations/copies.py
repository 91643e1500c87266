"""Commands that copy: snapshots, a mirror, trees. And storage partitions."""

from __future__ import annotations

import random
from functools import partial

from tests.crash.histories.doors import check_tree
from tests.crash.histories.model import Refused
from tests.crash.histories.operations.base import Draw, Operation, any_table
from tests.crash.histories.world import NAMESPACE, Site, World


def snapshot(rng: random.Random, site: Site, world: World) -> Operation:
    """A copy of all tables; every second one since the last."""
    out = site.fresh("snapshot")
    since = ("--since", str(site.snapshots[-1][0])) if site.snapshots and rng.random() < 0.5 else ()

    def keep(after: World) -> None:
        site.snapshots.append((out, after.restored()))

    words = ("snapshot", "--out", str(out), *since)
    return Operation("snapshot", words, done=lambda root: (out / "snapshot.json").exists(), after=keep)


def mirror(rng: random.Random, site: Site, world: World) -> Operation:
    """The mirror of this root is brought up to date."""
    out = site.base / f"mirror-of-{site.root.name}"

    def keep(after: World) -> None:
        site.mirrors[out] = after.restored()

    return Operation("mirror", ("mirror", str(site.root), str(out)), after=keep, either=site.root in site.replaced)


def plain(*words: str) -> Draw:
    """A command that changes no row."""
    return lambda rng, site, world: Operation(words[0], words)


def add_partition(rng: random.Random, site: Site, world: World) -> Operation:
    """One more, or one that is there."""
    name = str(rng.randint(0, 3))

    def keep(after: World) -> None:
        site.partitions = tuple(sorted({*site.partitions, name}))

    return Operation("partitions add", ("partitions", "add", NAMESPACE, name), after=keep)


def roll(rng: random.Random, site: Site, world: World) -> Operation:
    """Merges write to new storage partitions from then on, where the volume is full enough."""
    fuller = rng.choice(("99%", "1%"))
    return Operation("partitions roll", ("partitions", "roll", NAMESPACE, "--if-fuller-than", fuller), either=True)


def export(rng: random.Random, site: Site, world: World) -> Operation | None:
    """A tree of all rows, or of those of history, in a new directory or in the place of the last one."""
    model = any_table(rng, world)
    layout, tier = rng.choice(("nested", "flat", "kv", "metadata", "hive")), rng.choice(("all", "all", "history"))
    mine = [tree for tree, table in site.trees.items() if table == model.name]
    replaces = bool(mine) and rng.random() < 0.4
    out = rng.choice(mine) if replaces else site.fresh("export")
    words = ("export", model.name, "--out", str(out), "--layout", layout, "--tier", tier)
    rows = model.visible() if tier == "all" else model.merged_rows()

    def require_rows(after: World) -> None:
        if not rows:
            raise Refused("there are no rows to export")

    def keep(after: World) -> None:
        site.trees[out] = model.name
        check_tree(out, model, rows, "the export")

    change = partial(require_rows)
    return Operation("export", (*words, *(["--replace"] if replaces else [])), (change,), after=keep)
