"""Commands that make history: merges, and rows of trees."""

from __future__ import annotations

import random
from functools import partial

import pyarrow.parquet as pq

from tests.crash.histories.model import Model, Rule
from tests.crash.histories.operations.base import Operation, any_table, on, some_dates, some_rows
from tests.crash.histories.operations.dates import on_all_dates
from tests.crash.histories.world import KEY, Site, World, arrow_rows


def merge(rng: random.Random, site: Site, world: World) -> Operation:
    """One date or all, as it comes: again, in another format, with another rule."""
    model = any_table(rng, world)
    dates = some_dates(rng, site, model)
    words, rule, ends = ["merge", model.name, "--local", "--dates", ",".join(dates)], None, False
    match rng.randrange(6) if not site.sorts else 6:
        case 0:
            keep = rng.choice(("first", "last"))
            rule = Rule(keep, order_by_price=rng.random() < 0.5)
            words += ["--dedupe", "Key", "--keep", keep]
        case 1:
            rule = Rule("last", order_by_price=rng.random() < 0.5)
            words += ["--last-by", "Key"]
        case 2:
            rule = Rule("last", upsert=True)
            words += ["--upsert", "Key"]
        case 3:
            ends = True
            words += ["--dedupe", "none"]
        case 6 if rng.random() < 0.6:
            column = rng.choice(
                [KEY, *(c for c in model.columns if c.kind.key and c.name != "Date" and rng.random() < 0.2)]
            )
            words += ["--sort", f"{column.name}:desc" if rng.random() < 0.5 else column.name]
    if rule and rule.order_by_price:
        words += ["--order-by", "Price"]
    rewrite = rng.random() < 0.3
    words += ["--rewrite"] if rewrite else []
    words += ["--format", rng.choice(("deephaven", "parquet", "both"))] if rng.random() < 0.4 else []
    words += ["--only-partitions", rng.choice(site.partitions)] if rng.random() < 0.15 else []
    words += ["--max-supplements", "4"] if rng.random() < 0.1 else []

    def step(date: str, after: Model) -> None:
        after.merge(date, rewrite=rewrite, rule=rule, ends_rule=ends)

    changes = tuple(partial(on, model.name, partial(step, date)) for date in dates)
    return Operation("merge", tuple(words), changes)


def bring(rng: random.Random, site: Site, world: World) -> Operation | None:
    """Rows of a tree of Parquet files, as history of one or two dates."""
    model = any_table(rng, world)
    source = site.fresh("tree")
    date = some_dates(rng, site, model)[0]
    rows = [dict(row, Price=rng.choice((None, 5, 6, 7))) for row in some_rows(rng, model, [date])[:4]]
    if not rows:
        return None
    columns = [column for column in model.columns if column.name != "Date"]
    (source / f"Date={date}").mkdir(parents=True)
    pq.write_table(arrow_rows(columns, rows), source / f"Date={date}" / "rows.parquet")
    upserts = rng.random() < 0.3 and not site.sorts
    replaces = not upserts and rng.random() < 0.5
    words = ["import", model.name, "--from", str(source)]
    words += ["--upsert", "Key"] if upserts else ["--replace"] if replaces else []

    def step(after: Model) -> None:
        after.bring(date, rows, replaces=replaces, upserts=upserts)

    return Operation("import", tuple(words), (partial(on, model.name, step),))


def _merge_plainly(model: Model, date: str) -> None:
    model.merge(date, rewrite=False, rule=None, ends_rule=False)


def _merge_anew(model: Model, date: str) -> None:
    model.merge(date, rewrite=True, rule=None, ends_rule=False)


merge_all = on_all_dates("merge", ("merge", "--local"), _merge_plainly)


def merge_sorted(rng: random.Random, site: Site, world: World) -> Operation | None:
    """All dates by key, so that statistics tell where each key lies; where rules of duplicates do not ask for order."""
    words = ("merge", "--local", "--rewrite", "--sort", "Key")
    return on_all_dates("merge", words, _merge_anew)(rng, site, world) if site.sorts else None
