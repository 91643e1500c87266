"""Messages of the way into history: merge, validate, truncate, delete, rewrites, and dates as a whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.writers.merge.plan.output_plan import require_space
from sparkhaven.writers.partitions import volumes
from tests.support.hints.story import (
    ADD,
    DATES,
    DELETE,
    MERGE,
    MERGED,
    REMOVED,
    SAME,
    TRUNCATE,
    TRUNCATED,
    VALID,
    VALIDATE,
    Story,
    Words,
    do,
    told_by,
)
from tests.support.streams.dated_site import OLD, Dated
from tests.support.streams.schema_site import TABLE, schema
from tests.support.tables.intraday_rows import IntradayRows

MERGED_DATES = "`sparkhaven merge --status 7` lists the dates"
MERGE_IT = "sparkhaven merge 7 --dates 7"
NONE = ("--dates", "2030-01-01")


def late(site: Dated) -> Words:
    site.late(9, OLD)
    return TRUNCATE


def history(site: Dated, internal: str = "0") -> Path:
    return site.root / "Systems" / "Test" / "Partitions" / internal / OLD


def copied(site: Dated) -> Words:
    """History of the date, once more under the name of another storage partition."""
    shutil.copytree(history(site), history(site, "1"))
    return "delete-rows", TABLE, "--where", "A >= 0"


def lost(site: Dated) -> Words:
    shutil.rmtree(history(site) / "Event")
    return "dates", "adopt", TABLE, *DATES


def unrecorded(site: Dated) -> Words:
    """History of the date whose merge records are lost, beside the rows of intraday."""
    (records,) = site.root.rglob(f"*.merges/{OLD}")
    shutil.rmtree(records)
    return "read", TABLE, *DATES


def corrected(site: Dated) -> Words:
    site.do("rewrite-column", TABLE, *DATES, "--set", "C=C+1", "--local")
    for words in (VALIDATE, TRUNCATE, DELETE):
        site.do(*words)
    site.late(4, OLD)
    return *MERGE, "--discard-corrections"


def full(site: Dated) -> str:
    chosen = volumes(Fs(), Layout(site.root), "Test", ["0"])
    return told_by(lambda: require_space(Fs(), "Test", chosen, 1 << 80))


def no_room(site: Dated) -> Words:
    (site.base / "full").mkdir()
    return "partitions", "roll", "Test", "--if-fuller-than", "1%", "--volume", str(site.base / "full")


def broken_link(site: Dated) -> Words:
    do(site, *ADD)
    shutil.rmtree(site.root / "Systems" / "Test" / "Partitions" / "0")
    return MERGE


def unsynced(site: Dated) -> Words:
    """Rows of a stream that was killed before it synced them."""
    shutil.rmtree(site.root)
    text = schema().encode()
    rows = IntradayRows(site.root, text, durability="none")
    rows.commit({("s", OLD): pa.table({"A": pa.array([1], pa.int64()), "B": ["x"], "C": [0.5]})})
    kept = {path: path.read_bytes() for path in site.root.rglob("*") if path.is_file()}
    rows.log.close()
    for path, data in kept.items():
        path.write_bytes(data)
    do(site, *ADD)
    return MERGE


STORIES = {
    "a merge of rows that are not synced": Story("If the stream is stopped", unsynced, again=SAME),
    "validate before a merge": Story(MERGE_IT, VALIDATE, (ADD,), again=SAME),
    "truncate before a merge": Story(MERGE_IT, TRUNCATE, (ADD,)),
    "truncate with later rows": Story("sparkhaven merge 7 --dates 7, then truncate again", late, VALID, again=TRUNCATE),
    "delete before a truncate": Story("sparkhaven truncate 7 --dates 7", DELETE, VALID, again=SAME),
    "rewrite before a merge": Story(
        MERGED_DATES, ("rewrite-column", TABLE, *DATES, "--set", "C=C+1", "--local"), (ADD,)
    ),
    "rewrite of no date": Story(
        MERGED_DATES,
        ("rewrite-column", TABLE, *NONE, "--set", "C=C+1", "--local"),
        MERGED,
    ),
    "rewrite of nothing": Story(
        "see `sparkhaven rewrite-column --help`", ("rewrite-column", TABLE, *DATES, "--local"), MERGED
    ),
    "drop": Story("keeps a copy. `sparkhaven drop 7 --yes` drops it", ("drop", TABLE, "--grace", "0")),
    "expire with rows in intraday": Story(
        "first `sparkhaven truncate 7 --dates 7`", ("dates", "expire", TABLE, "--keep", "1 d"), VALID
    ),
    "expire with a truncated date": Story(
        "first `sparkhaven delete 7 --dates 7`", ("dates", "expire", TABLE, "--keep", "1 d"), TRUNCATED
    ),
    "expire": Story(
        "--zone 7 --yes` drops them", ("dates", "expire", TABLE, "--keep", "1 d", "--zone", "UTC"), REMOVED
    ),
    "validate of no date": Story("`sparkhaven stats 7`", ("validate", TABLE, *NONE)),
    "merge of no date": Story("--allow-empty skips an empty one", ("merge", TABLE, *NONE, "--local"), (ADD,)),
    "merge of a range without dates": Story(
        "`sparkhaven stats` lists the dates", ("merge", TABLE, "--dates", "2030-01-01..2030-02-01", "--local"), (ADD,)
    ),
    "dates that were dropped": Story(
        "by the next merge or `sparkhaven clean", ("dates", "drop", TABLE, *DATES), REMOVED
    ),
    "move before a merge": Story(MERGED_DATES, ("dates", "move", TABLE, *DATES, "--to", "0"), (ADD,)),
    "move to no partition": Story(
        "makes one on another volume", ("dates", "move", TABLE, *DATES, "--to", "7"), REMOVED, again=SAME
    ),
    "detach before a merge": Story(MERGED_DATES, ("dates", "detach", TABLE, *DATES, "--out", "away"), (ADD,)),
    "drop of dates before a merge": Story(MERGED_DATES, ("dates", "drop", TABLE, *DATES), (ADD,)),
    "history that was copied": Story("counts them and writes a record", copied, MERGED, again=SAME),
    "adoption of no date": Story("lists what no merge record vouches for", ("dates", "adopt", TABLE, *NONE), MERGED),
    "history that was removed": Story("--accept-loss`", lost, MERGED, again=SAME),
    "history without records": Story("counts both. Until then name a tier", unrecorded, MERGED, again=SAME),
    "corrections that cannot be discarded": Story(
        "compute the columns again by", corrected, MERGED, fills={"C=EXPR": "C=C+1"}
    ),
    "rules of duplicates that contradict": Story(
        "see `sparkhaven merge --help`", (*MERGE, "--dedupe", "A", "--upsert", "A"), (ADD,)
    ),
    "duplicates by no column": Story("or --dedupe none. `sparkhaven schema show", (*MERGE, "--dedupe", "Nope"), (ADD,)),
    "merge into no partition": Story("shows which are writable", (*MERGE, "--only-partitions", "9"), (ADD,)),
    "a full volume": Story("free space, or write to another volume", full, (ADD,)),
    "no emptier volume": Story("name an emptier volume", no_room, (ADD,)),
    "partitions of no namespace": Story("creates a partition", ("partitions", "list", "Nope")),
    "roll without partitions": Story(
        "`sparkhaven partitions add 7 0` makes one", ("partitions", "roll", "Test"), again=SAME
    ),
    "a broken link": Story("mount the volume, or remove the link", broken_link, again=SAME),
}
