"""Messages of what leaves or enters as a whole: detached dates, snapshots, exports, imports, trees beside history."""

from __future__ import annotations

import shutil
from base64 import b64decode, b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkhaven import save_table
from sparkhaven.store.format.manifest import DETACHED, Manifest, encode, load
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.merges.merge_records import decode_record, encode_record
from tests.support.hints.story import DATES, MERGED, REMOVED, SAME, VALID, Story, Words, do
from tests.support.streams.dated_site import OLD, Dated
from tests.support.streams.schema_site import TABLE, schema


def tape(site: Dated) -> Path:
    return next((site.base / "tape" / TABLE).iterdir())


def detached(site: Dated, **about: Any) -> Words:
    """The date outside of the tree; its manifest says something else of its merge."""
    (site.base / "tape").mkdir()
    do(site, "dates", "detach", TABLE, *DATES, "--out", str(site.base / "tape"))
    if about:
        manifest = load(Fs(), tape(site), DETACHED, lambda manifest: manifest)
        record = decode_record(b64decode(manifest.about["record"]), tape(site))
        changed: dict[str, Any]
        if "columns" in about:
            changed = {"columns": [[number + 1, name, kind] for number, name, kind in manifest.about["columns"]]}
        else:
            changed = {"record": b64encode(encode_record(replace(record, **about))).decode()}
        (tape(site) / DETACHED.name).write_bytes(
            encode(Manifest(DETACHED, {**manifest.about, **changed}, manifest.parts))
        )
    return "dates", "attach", TABLE, str(tape(site))


def of_another_table(site: Dated) -> Words:
    """A date of this table, which another one is to take."""
    (site.base / "o.toml").write_text((site.base / "s.toml").read_text().replace("Event", "Other"))
    other = site.base / "Test.Other.schema"
    other.write_text(schema().replace("Event", "Other"))
    do(site, "schema", "deploy", str(other))
    do(site, "partitions", "list", "Test")
    detached(site)
    return "dates", "attach", "Test.Other", str(tape(site))


def foreign(site: Dated) -> Words:
    """A date of another database."""
    detached(site)
    site.root = site.base / "other"
    site.numbers = 0
    site.ingest()
    return "dates", "attach", TABLE, str(tape(site))


def part_away(site: Dated) -> Words:
    detached(site)
    site.late(8, OLD)
    for words in REMOVED:
        do(site, *words)
    do(site, "dates", "detach", TABLE, *DATES, "--out", str(site.base / "tape"))
    min((site.base / "tape" / TABLE).iterdir()).rename(site.base / "away")
    return "dates", "attach", TABLE, str(site.base / "tape")


def part_back(site: Dated) -> None:
    (site.base / "away").rename(site.base / "tape" / TABLE / f"{OLD}.g1")


def snapshot(site: Dated) -> Path:
    do(site, "snapshot", TABLE, "--out", str(site.base / "snap"))
    return site.base / "snap"


def into_a_copy(site: Dated) -> Words:
    return "--root", str(snapshot(site)), "partitions", "add", "Test", "5"


def over_other_rows(site: Dated) -> Words:
    kept = snapshot(site)
    site.late(6, OLD)
    return "restore", str(kept), TABLE


def of_a_damaged_table(site: Dated) -> Words:
    file, *_ = (site.root / "Intraday").rglob("A.dat")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    return "snapshot", TABLE, "--out", str(site.base / "snap")


def unpartitioned(site: Dated) -> Words:
    save_table(site.root, "me.T", pa.table({"A": [1, 2]}))
    return "export", "me.T", "--layout", "flat", "--out", str(site.base / "out")


def replaced_by_import(site: Dated) -> Words:
    do(site, "export", TABLE, "--layout", "flat", "--dates", OLD, "--out", str(site.base / "tree"))
    return "import", TABLE, "--from", str(site.base / "tree"), "--layout", "flat", *DATES, "--replace"


def tree(site: Dated) -> Path:
    site.write(schema(extra='  <ExtendedStorage type="coreplus:hive"/>\n'))
    site.deploy()
    do(site, "merge", TABLE, *DATES, "--local", "--rewrite")
    return site.place.extended


def manifest_lost(site: Dated) -> Words:
    for path in tree(site).iterdir():
        if path.is_file():
            path.unlink()
    return "metadata", "update", TABLE


def leaf_lost(site: Dated) -> Words:
    for path in tree(site).iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    return "metadata", "update", TABLE


def tree_damaged(site: Dated) -> Words:
    for path in tree(site).rglob("*"):
        if path.is_file() and path.suffix in (".dat", ".parquet"):
            path.unlink()
    return "verify", TABLE, "--deep"


STORIES = {
    "a part that is not in the directory": Story(
        "restore it from a copy, then `sparkhaven dates attach", part_away, REMOVED, by_hand=part_back
    ),
    "a date of another table": Story("sparkhaven dates attach 7 7", of_another_table, REMOVED),
    "a date of a newer schema": Story(
        "deploy the newer schema first", lambda site: detached(site, schema_version=9), REMOVED
    ),
    "a date of other columns": Story(
        "read it with the schema it was detached by", lambda site: detached(site, columns=1), REMOVED
    ),
    "a date of another database": Story("restore the snapshot that has it as detached", foreign, REMOVED),
    "a command in a copy": Story("run it on the root that was copied", into_a_copy, REMOVED),
    "restore over other rows": Story("removes it for that of the snapshot", over_other_rows),
    "export of a table without dates": Story("write it to one file with", unpartitioned),
    "export of nothing": Story(
        "lists dates and rows", ("export", TABLE, "--layout", "flat", "--tier", "history", "--out", "/dev/shm/out")
    ),
    "import over rows of intraday": Story("then run this again", replaced_by_import, VALID, again=SAME),
    "a tree without a manifest": Story("which writes it again from history", manifest_lost, MERGED, again=SAME),
    "a tree without a leaf": Story("which writes it again from history", leaf_lost, MERGED, again=SAME),
    "a damaged tree": Story("which writes it again from history", tree_damaged, MERGED, again=SAME),
    "a copy of damaged files": Story(
        "or go back to an epoch before the damage", of_a_damaged_table, fills={"NAME": "t", "N": "0"}
    ),
}
