"""The head beside removals: those that it has applied, those after it, and those that are gone."""

from __future__ import annotations

from pathlib import Path

from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.removed_locations import Removal
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from tests.support.streams.head_cases import FS, A, B, made, newest, place
from tests.support.streams.tiny_writer import STREAM, TABLE, append, batch_of, open_log, remove

__all__ = ["made"]


def test_truncated_locations_are_known_without_decoding_others(made: Path) -> None:
    with open_log(FS, made) as log:
        location = log.state.locations[A]
        remove(
            FS, made, Removal(A, location.since, location.rows, "truncate", log.state.epoch, {}, 5, location.made_ms)
        )
        assert log.state.locations.truncated() == []
        log.refresh()
        assert [one.key for one in log.state.locations.truncated()] == [A]
        log.write_head()
    with open_log(FS, made) as log:
        assert [one.key for one in log.state.locations.truncated()] == [A]
        left = log.state.locations.stored()
        assert left is not None and left.keys == [B]
        log.write_head()
    place(made).unlink()
    with open_log(FS, made) as log:
        assert log.state.locations.stored() is None
        assert [one.key for one in log.state.locations.truncated()] == [A]


def test_removals_before_and_after_it(made: Path) -> None:
    with open_log(FS, made) as log:
        remove(FS, made, Removal(A, 1, 6, "truncate", 6, {}, 5))
        log.refresh()
        log.write_head()
        remove(FS, made, Removal(B, 1, 6, "truncate", 6, {}, 6), Removal(B, 1, 0, "delete", 6, {}, 7))
        FS.remove_tree(Layout(made).intraday_location(TABLE, B))
    found = newest(made)
    assert found.head is not None
    assert found.start.locations[A].truncated
    state = load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM))
    assert (set(state.locations), state.locations[A].truncated) == ({A}, True)


def test_removals_that_a_power_cut_took(made: Path) -> None:
    path = Layout(made).stream_removals(TABLE, STREAM)
    with open_log(FS, made) as log:
        remove(FS, made, Removal(A, 1, 6, "truncate", 6, {}, 5))
        end = path.stat().st_size
        remove(FS, made, Removal(B, 1, 6, "truncate", 6, {}, 6))
        log.refresh()
        log.write_head()
    assert newest(made).head is not None
    whole = path.read_bytes()
    path.write_bytes(whole[:end])
    assert newest(made).head is None
    assert not load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM)).locations[B].truncated
    other = Removal(A, 1, 6, "truncate", 6, {}, 6)  # as long as the one that is gone
    remove(FS, made, other)
    assert path.stat().st_size == len(whole)
    assert newest(made).head is None


def test_a_truncated_location_that_a_rollback_names_is_the_same_from_both_sides(made: Path) -> None:
    with open_log(FS, made, clock=lambda: 9e6) as log:
        remove(FS, made, Removal(A, 1, 6, "truncate", 6, {}, 5))
        log.refresh()
        log.write_head()
        log.rollback(5)
        assert log.state.locations[A].time_ms == 5
    assert newest(made).head is None
    with open_log(FS, made, clock=lambda: 9e6) as log:
        log.commit(batch_of([append(FS, made, log.state.locations[B], B, [1])], 9))
        log.write_head()
        log.commit(batch_of([append(FS, made, log.state.locations[B], B, [1])], 10))
        log.rollback(8)
    assert newest(made).head is not None
