"""The newest state of a stream that can still be read, whatever of its files is lost or damaged."""

from __future__ import annotations

from contextlib import suppress

from sparkhaven.store.epochs.files.checkpoint import open_saved
from sparkhaven.store.epochs.files.head import decode_head, open_head
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import FormatError, TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName


def known_state(fs: Fs, layout: Layout, table: TableName, stream: str) -> StreamState:
    """The newest state of log with checkpoint, checkpoint alone, and head alone; empty if none is readable."""
    found = [StreamState(stream)]
    with suppress(FormatError, TableNotFoundError):
        found.append(load_stream(fs, layout, table, stream))
    with suppress(FileNotFoundError, FormatError):
        path = layout.stream_checkpoint(table, stream)
        saved = open_saved(fs.read(path), path)
        saved.check()
        found.append(_whole(saved.decode(stream).state))
    with suppress(FileNotFoundError, FormatError):
        path = layout.stream_head(table, stream)
        data = fs.read(path)
        head = open_head(data, path)
        head.check()
        found.append(_whole(decode_head(head, stream, len(data)).state))
    return max(found, key=lambda state: (state.epoch, state.n))


def _whole(state: StreamState) -> StreamState:
    """Decodes what a state leaves for later; CorruptFileError where that is damaged."""
    state.locations.settle()
    state.files.read()
    return state
