"""The three trees and the foreign files, made once."""

from __future__ import annotations

import shutil
from pathlib import Path

from sparkhaven.store.epochs.files.stream_notes import RemovedStream, encode_removed, note_failure
from sparkhaven.store.errors import RetryableFeedError
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.schema.deployed.deploy import deploy
from tests.support.witness.damage import Trees
from tests.support.witness.story import OTHER, SCHEMA, STREAM, TABLE, begin, go_further, go_on

OTHER_SCHEMA = SCHEMA.replace(b'"N" dataType="long"', b'"N" dataType="int"').replace(b"Half", b"Third")


def make_trees(base: Path) -> Trees:
    """The same database at three times below ``base``, and the side files of a table of the same name elsewhere."""
    fs, root = Fs(), base / "db"
    trees = Trees(base / "older", base / "now", base / "newer", base / "elsewhere")
    writer = begin(root, fs)
    for target, more in ((trees.older, go_on), (trees.now, go_further), (trees.newer, None)):
        for stream in (STREAM, OTHER):
            silent = RetryableFeedError("the source does not answer", found=target.name)
            note_failure(StreamPlace(fs, Layout(root), TABLE, stream), silent, 1_700_000_000_000)
        shutil.copytree(root, target, symlinks=True)
        if more is not None:
            more(writer)
    shutil.rmtree(root)
    _foreign(trees.elsewhere, fs)
    return trees


def _foreign(place: Path, fs: Fs) -> None:
    place.mkdir()
    root = place / "db"
    begin(root, fs)
    layout = Layout(root)
    shutil.copyfile(layout.metadata_index(TABLE), place / "elsewhere.tlmi")
    shutil.rmtree(root)
    note = RemovedStream(99, 99, 0)
    (place / "elsewhere.removed").write_bytes(encode_removed(note, TABLE, OTHER))
    root.mkdir()
    (place / "elsewhere.tbl").write_bytes(encode_tbl(deploy(fs, layout, OTHER_SCHEMA)))
    shutil.copyfile(layout.schema(TABLE), place / "elsewhere.schema")
    shutil.copyfile(layout.schema_history(TABLE), place / "elsewhere.history.json")
