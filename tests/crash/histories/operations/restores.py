"""Steps with copies: restored into a new root or over the tables, dropped again, and written to, which is refused."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sparkhaven.store.layout import Layout, TableName
from tests.crash.histories.apart import KILLED, Fault
from tests.crash.histories.readers import check_copy, expected_rows, require, rows_now
from tests.crash.histories.world import World

if TYPE_CHECKING:
    from tests.crash.histories.history import History
    from tests.crash.histories.operations.base import Draw


def restore(history: History, rng: random.Random, fault: Fault | None) -> None:
    """Restores a snapshot or a mirror into a new root; the history goes on there, or in the old one."""
    site = history.site
    copies = [*site.snapshots, *site.mirrors.items()]
    if not copies:
        return
    source, world = rng.choice(copies)
    root = site.fresh("db")
    history.tell(f"restore {source.name} into {root.name}")
    _through(history, ("restore", str(source)), fault, (root, world), (0,))
    check_copy(history.look, root, world)
    history.tally.done["restore"] += 1
    if rng.random() < 0.4:
        history.story[-1] += ", and go on there"
        old, site.root, history.world = site.root, root, world.copy()
        history.write_schemas()
        history.pinned.clear()
        history.logs.clear()
        shutil.rmtree(old)
        return
    if rng.random() < 0.5:
        _drop(history, fault, root, world)
    shutil.rmtree(root)


def _drop(history: History, fault: Fault | None, root: Path, world: World) -> None:
    """Drops the tables of a restored root, each as a whole."""
    for model in world.tables.values():
        schema = Layout(root).schema(TableName.parse(model.name))
        if not schema.exists():
            continue
        words = ("drop", model.name, "--yes", "--grace", "0")
        history.tell(f"in {root.name}: {' '.join(words)}")
        _through(history, words, fault, (root, world), (0, 2))
        require(not schema.exists(), f"{model.name} is still there")
        history.tally.done["drop"] += 1


def _through(
    history: History, words: Sequence[str], fault: Fault | None, there: tuple[Path, World], again: tuple[int, ...]
) -> None:
    """A command on another root, once more where it met a fault; then each table is there as a whole, or not."""
    root, world = there
    ended = history.command(words, fault, root)
    if ended.met:
        how = "killed" if ended.code == KILLED else "on a full disk"
        history.story[-1] += f"   ({how}, at {fault.number if fault else 0})"
        history.tally.done[f"{words[0]} {how}"] += 1
        for table in world.written():
            found = rows_now(root, table)
            require(not found or found == expected_rows(table), f"{table.name} is there in part")
        ended = history.command(words, root=root)
    else:
        again = (0,)
    require(ended.code in again, f"ended with {ended.code}: {ended.output}")


def restore_over(history: History, rng: random.Random, fault: Fault | None) -> None:
    """Restores a snapshot over the tables that are there."""
    site, before = history.site, history.world
    if not site.snapshots:
        return
    source, world = rng.choice(site.snapshots)
    names = [table.name for table in world.written()]
    words = ["restore", str(source), *(word for name in names for word in ("--replace", name))]
    history.tell(f"restore {source.name} over the tables")
    told_apart = all(expected_rows(world.table(name)) != expected_rows(before.table(name)) for name in names)
    ended = history.command(words, fault if told_apart else None)
    if ended.met:
        how = "killed" if ended.code == KILLED else "on a full disk"
        history.story[-1] += f"   ({how}, at {fault.number if fault else 0})"
        history.tally.done[f"restore over {how}"] += 1
        history.one_of([before, before.with_tables_of(world, names)])
        ended = history.command(words)
    require(ended.code == 0, f"ended with {ended.code}: {ended.output}")
    restored = []
    for name in names:
        mine, copied = before.table(name), expected_rows(world.table(name))
        present = "there already" in ended.output.split(f"{name}: ")[1].split("\n")[0]
        if mine is not None and present and rows_now(site.root, mine) == expected_rows(mine):
            same = expected_rows(mine) == copied
            require(same, f"{name} is said to be present, and has other rows than the snapshot")
        else:
            restored.append(name)
    history.world = before.with_tables_of(world, restored)
    site.replaced.add(site.root)
    history.write_schemas()
    history.tally.done["restore over"] += 1


def write_into_copy(history: History, rng: random.Random, draw: Draw) -> None:
    """A command that would change a snapshot or a mirror is refused, and changes nothing."""
    site, own = history.site, history.world
    copies = [*site.snapshots, *site.mirrors.items()]
    if not copies:
        return
    path, world = rng.choice(copies)
    operation = draw(rng, site, world.copy())
    history.write_schemas()
    if operation is None:
        return
    history.tell(f"in {path.name}: {' '.join(operation.words)}".replace(f"{site.base}/", ""))
    before = contents(path.resolve())
    ended = history.command(operation.words, root=path)
    history.story[-1] += f" -> {ended.code}"
    require(ended.code != 0 or contents(path.resolve()) == before, f"{path.name} was written: {ended.output}")
    check_copy(history.look, path.resolve(), world)
    history.world = own
    history.tally.done["written into a copy"] += 1


def contents(root: Path) -> dict[str, tuple[int, int]]:
    """Bytes and time of every file below a root but locks."""
    return {
        str(path): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in _files(root)
        if not path.name.endswith(".lock")
    }


def _files(directory: Path) -> Iterator[Path]:
    return (path for path in sorted(directory.rglob("*")) if not path.is_dir() or path.is_symlink())
