"""The newest state of a stream that can still be read, whatever of its files is lost or damaged."""

from __future__ import annotations

from contextlib import suppress

from sparkhaven.store.epochs.files.checkpoint import open_saved
from sparkhaven.store.epochs.files.head import decode_head, open_head
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import FormatError, TableNotFoundError
from sparkhaven.store.places import StreamPlace


def known_state(place: StreamPlace) -> StreamState:
    """The newest state of log with checkpoint, checkpoint alone, and head alone; empty if none is readable."""
    states = [StreamState(place.stream)]
    with suppress(FormatError, TableNotFoundError):
        states.append(load_stream(place))
    with suppress(FileNotFoundError, FormatError):
        path = place.stream_checkpoint
        saved = open_saved(place.fs.read(path), path)
        saved.check()
        states.append(_whole(saved.decode(place.stream).state))
    with suppress(FileNotFoundError, FormatError):
        path = place.stream_head
        data = place.fs.read(path)
        head = open_head(data, path)
        head.check()
        states.append(_whole(decode_head(head, place.stream, len(data)).state))
    return max(states, key=lambda state: (state.epoch, state.n))


def _whole(state: StreamState) -> StreamState:
    """Decodes what a state leaves for later; CorruptFileError where that is damaged."""
    state.locations.settle()
    state.files.read()
    return state
