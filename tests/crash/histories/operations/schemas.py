"""Changes of a schema."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.crash.histories.columns import KINDS, PLAIN, WIDER, Col
from tests.crash.histories.operations.base import Operation, any_table
from tests.crash.histories.world import BASE, Site, World, write_schema


def deploy(rng: random.Random, site: Site, world: World) -> Operation | None:
    """A column more, one less, one with another name or a wider type."""
    model = any_table(rng, world)
    extra = [column for column in model.columns if column.name not in {base.name for base in BASE}]
    site.numbers += 1
    fresh = f"Y{site.numbers}"
    as_json = any(feed.form == "json" for feed in world.feeds.values() if model.name in feed.tables)
    added = Col(fresh, fresh, rng.choice([k for k in (*PLAIN, *KINDS.values()) if k.json or not as_json]))
    kind = rng.choice(("add", "add", "drop", "rename", "rename", "widen", "rename and add", "swap"))
    chosen = rng.choice(extra) if extra else None
    columns, words = list(model.columns), tuple[str, ...]()
    if kind == "add" or chosen is None:
        columns.insert(rng.randint(1, len(columns)), added)
    elif kind == "drop":
        columns.remove(chosen)
        words = ("--drop", chosen.name)
    elif kind == "widen":
        if chosen.kind.name not in WIDER or chosen.role:
            return None
        # without values that the files of before cannot take
        wider = replace(KINDS[WIDER[chosen.kind.name]], pool=chosen.kind.pool)
        columns[columns.index(chosen)] = replace(chosen, kind=wider)
    elif kind == "swap":
        other = rng.choice(extra)
        if other == chosen:
            return None
        columns[columns.index(chosen)] = replace(chosen, name=other.name)
        columns[columns.index(other)] = replace(other, name=chosen.name)
        words = ("--rename", f"{chosen.name}={other.name}", "--rename", f"{other.name}={chosen.name}")
    else:
        columns[columns.index(chosen)] = replace(chosen, name=fresh)
        words = ("--rename", f"{chosen.name}={fresh}")
        if kind == "rename and add":  # another column under the old name
            columns.append(Col(fresh + "new", chosen.name, rng.choice((chosen.kind, added.kind))))
    after = replace(model.copy(), columns=tuple(columns))
    write_schema(site, after)

    def change(world: World) -> None:
        world.tables[model.name] = replace(world.tables[model.name], columns=tuple(columns))

    words = ("schema", "deploy", str(site.schema(model.name)), *words)
    return Operation("schema deploy", words, (change,), again=(2,))
