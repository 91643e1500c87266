"""``recover --from-locations``: a lost or too old commit log is rebuilt, and nothing is taken twice in silence."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.epochs.files.removals import write_removals
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.recovery.rebuild import PositionChoice, rebuild
from sparkhaven.store.epochs.recovery.survey import find
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.epochs.state.removed_locations import Removal
from sparkhaven.store.errors import CorruptFileError, PositionGapError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace, TablePlace
from tests.support.commands import run_json
from tests.support.disks.contents import contents, flip
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.disks.power_cut_fs import PowerCutFs
from tests.support.examples import some_of
from tests.support.streams.locations import DAY, A, B
from tests.support.streams.tiny_writer import STREAM, TABLE, open_log, read_state, write_batch
from tests.support.tables.small_tables import SmallTable

STREAMS = "Intraday/NS/T/.streams"
RECOVER = "recover", "NS.T", "s", "--from-locations"


def _close(small: SmallTable) -> None:
    for log in small.logs.values():
        log.close()
    small.logs.clear()


def _range(start: int, stop: int) -> tuple[OffsetRange, ...]:
    return (OffsetRange("t", 0, start, stop, "id"),)


def _older(root: Path, *, ranges: bool = False) -> SmallTable:
    """The streams directory of epoch 1 beside locations of epoch 3."""
    small = SmallTable(root)
    small.commit(small.append("a", DAY, {"Size": [1]}), ranges=_range(0, 1) if ranges else ())
    shutil.copytree(root / STREAMS, root / "copy")
    small.commit(small.append("a", DAY, {"Size": [2]}), ranges=_range(1, 2) if ranges else ())
    small.commit(small.append("b", DAY, {"Size": [3]}), ranges=_range(2, 3) if ranges else ())
    _close(small)
    shutil.rmtree(root / STREAMS)
    shutil.move(root / "copy", root / STREAMS)
    return small


def _lost(root: Path) -> SmallTable:
    small = _older(root)
    shutil.rmtree(root / STREAMS)
    return small


def _sizes(root: Path) -> list[Any]:
    return sorted(open_table(root, "NS.T").to_arrow("Size")["Size"].to_pylist())


def test_a_dry_run_says_what_would_be_and_changes_nothing(tmp_path: Path) -> None:
    _older(tmp_path)
    before = contents(tmp_path)
    code, result = run_json(tmp_path, *RECOVER, "--dry-run")
    assert code == 0
    rebuilt = result["rebuilt"]
    assert (rebuilt["rows"], rebuilt["known_epoch"], rebuilt["positions"]) == (3, 1, "unknown")
    assert "epochs 2 to 3" in rebuilt["unknown"][0]
    assert contents(tmp_path) == before


@pytest.mark.parametrize("damage", [_older, _lost])
def test_rows_come_back_and_the_stream_stops_until_its_positions_are_given(tmp_path: Path, damage: Any) -> None:
    small = damage(tmp_path)
    code, result = run_json(tmp_path, *RECOVER)
    assert (code, result["rebuilt"]["positions"]) == (0, "unknown"), result
    assert _sizes(tmp_path) == [1, 2, 3]
    assert run_json(tmp_path, "recover")[0] == 0
    with pytest.raises(PositionGapError, match="rebuilt from locations"):
        small.log()
    assert run_json(tmp_path, *RECOVER, "--taken-until", "2027-01-15T08:03:30Z")[0] == 0
    state = small.log().state
    assert state.horizon == 1_800_000_210 * 10**9
    assert state.epoch > 3  # no number comes twice
    assert state.generation > 2
    small._symbols.clear()
    small.add("b", DAY, {"Size": [4]})
    assert _sizes(tmp_path) == [1, 2, 3, 4]
    _close(small)
    assert run_json(tmp_path, "verify", "--deep")[0] == 0


def test_every_command_tells_of_a_rebuilt_log_without_its_positions(tmp_path: Path) -> None:
    _older(tmp_path)
    assert run_json(tmp_path, *RECOVER)[0] == 0
    what = "the commit log was rebuilt and its source positions are unknown. The stream ingests nothing"
    code, result = run_json(tmp_path, "verify", "NS.T")
    kept = "files that a rebuild of a commit log has replaced"
    assert (code, [(f["severity"], f["what"]) for f in result["findings"]]) == (0, [("note", kept), ("warning", what)])
    assert [f["code"] for f in result["findings"]] == ["N311", "W305"]
    assert "recover NS.T s --from-locations" in result["findings"][1]["hint"]
    _, result = run_json(tmp_path, "stats", "NS.T")
    assert result["streams"][0]["positionsUnknown"] == {"rowsUpTo": 3, "knownUpTo": 1}
    _, result = run_json(tmp_path, "doctor")
    assert f"NS.T s: {what}" in [found["what"] for found in result["findings"] if found["state"] == "wrong"]
    assert run_json(tmp_path, *RECOVER, "--accept-positions")[0] == 0
    for command in ("verify", "stats", "doctor"):
        assert "rebuilt from" not in str(run_json(tmp_path, command)), command
        assert "positionsUnknown" not in str(run_json(tmp_path, command)), command


def test_positions_of_an_older_log_that_went_on_are_not_taken_for_the_newest(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.commit(small.append("a", DAY, {"Size": [1]}), ranges=_range(0, 1))
    _close(small)
    shutil.copytree(tmp_path / STREAMS, tmp_path / "copy")
    for start in (1, 2):  # two generations that committed nothing but positions
        small.commit(ranges=_range(start, start + 1))
        _close(small)
    lock = (tmp_path / STREAMS / "s.lock").read_bytes()
    shutil.rmtree(tmp_path / STREAMS)
    shutil.move(tmp_path / "copy", tmp_path / STREAMS)
    (tmp_path / STREAMS / "s.lock").write_bytes(lock)
    code, result = run_json(tmp_path, *RECOVER, "--dry-run")
    assert (code, result["rebuilt"]["positions"]) == (0, "unknown"), result
    assert "generations 2 to 3" in result["rebuilt"]["unknown"][0]


def test_offsets_that_are_given_are_where_a_topic_goes_on(tmp_path: Path) -> None:
    small = _older(tmp_path, ranges=True)
    code, result = run_json(tmp_path, *RECOVER, "--position", "t/0=3")
    assert (code, result["rebuilt"]["positions"], result["rebuilt"]["positions_at"]) == (0, "given", {"t/0": 3})
    with pytest.raises(PositionGapError, match="does not continue"):
        small.commit(small.append("b", DAY, {"Size": [9]}), ranges=_range(7, 8))
    small.commit(small.append("b", DAY, {"Size": [4]}), ranges=_range(3, 4))
    assert _sizes(tmp_path) == [1, 2, 3, 4]


def test_going_back_to_what_is_known_lets_the_source_send_the_rest_again(tmp_path: Path) -> None:
    small = _older(tmp_path, ranges=True)
    code, result = run_json(tmp_path, *RECOVER, "--back-to-known")
    assert (code, result["rebuilt"]["positions_at"]) == (0, {"t/0": 1}), result
    assert _sizes(tmp_path) == [1]
    assert (tmp_path / "Intraday/NS/T/b" / DAY / ".set-aside-T-3").is_dir()
    small.commit(small.append("a", DAY, {"Size": [2]}), small.append("b", DAY, {"Size": [3]}), ranges=_range(1, 3))
    assert _sizes(tmp_path) == [1, 2, 3]
    _close(small)
    assert run_json(tmp_path, "verify", "--deep")[0] == 0


def test_known_positions_that_are_accepted_hold(tmp_path: Path) -> None:
    small = _older(tmp_path, ranges=True)
    assert run_json(tmp_path, *RECOVER, "--accept-positions")[0] == 0
    assert small.log().state.offsets.positions() == {"t/0": 1}
    assert _sizes(tmp_path) == [1, 2, 3]


def test_a_head_knows_the_positions_of_a_lost_log(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.commit(small.append("a", DAY, {"Size": [1]}), ranges=_range(0, 1))
    assert small.log().write_head()
    _close(small)
    (tmp_path / STREAMS / "s.log").unlink()
    code, result = run_json(tmp_path, *RECOVER)
    assert (code, result["rebuilt"]["positions"], result["rebuilt"]["positions_at"]) == (0, "known", {"t/0": 1})
    small.commit(small.append("a", DAY, {"Size": [2]}), ranges=_range(1, 2))
    assert _sizes(tmp_path) == [1, 2]


def test_a_sound_log_is_not_rebuilt(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.add("a", DAY, {"Size": [1]})
    _close(small)
    assert run_json(tmp_path, *RECOVER)[0] == 2
    assert run_json(tmp_path, "recover", "NS.T", "--from-locations")[0] == 2
    assert run_json(tmp_path, "recover", "NS.T", "s", "--accept-positions")[0] == 2
    assert run_json(tmp_path, "recover", "NS.T", "other", "--from-locations")[0] == 2


def test_bytes_that_are_not_what_was_published_are_refused_or_set_aside(tmp_path: Path) -> None:
    _lost(tmp_path)
    path = tmp_path / "Intraday/NS/T/b" / DAY / "T/Size.dat"
    flip(path, -1)
    code, result = run_json(tmp_path, *RECOVER)
    assert code == 1
    assert "checksum" in str(result)
    assert "--quarantine b/" in str(result)
    code, result = run_json(tmp_path, *RECOVER, "--quarantine", f"b/{DAY}", "--accept-positions")
    assert code == 0, result
    assert open_table(tmp_path, "NS.T", skip_set_aside=True).count() == 2
    assert run_json(tmp_path, "read", "NS.T")[0] == 1


def test_merged_rows_are_counted_once_after_a_rebuild(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.add("a", DAY, {"Size": [1]})
    small.add("a", DAY, {"Size": [2]})
    small.merge_by_hand(DAY)
    _close(small)
    (tmp_path / STREAMS / "s.log").unlink()
    assert run_json(tmp_path, *RECOVER)[0] == 0
    assert _sizes(tmp_path) == [1, 2]


def test_rows_that_may_be_merged_ones_or_not_are_refused(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.add("a", DAY, {"Size": [1]})
    small.merge_by_hand(DAY)
    small.add("a", DAY, {"Size": [2]})
    _close(small)
    shutil.rmtree(tmp_path / STREAMS)
    code, result = run_json(tmp_path, *RECOVER)
    assert code == 1
    assert "the removals are lost" in str(result)


def test_what_maintenance_has_emptied_stays_so(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.add("a", DAY, {"Size": [1]})
    small.add("b", DAY, {"Size": [2]})
    write_removals(small.place.of_stream("s"), [Removal(A, 1, 1, "truncate", 2)])
    _close(small)
    (tmp_path / STREAMS / "s.log").unlink()
    assert run_json(tmp_path, *RECOVER)[0] == 0
    assert open_table(tmp_path, "NS.T").to_arrow("Size", tier="intraday")["Size"].to_pylist() == [2]


# --- stops -------------------------------------------------------------------------------------------------


def _tiny(root: Path) -> None:
    fs = Fs()
    with open_log(fs, root, keep_epochs=0) as log:
        write_batch(fs, root, log, {A: [1]}, 1)
        log.compact_if_due(now=True)
        older = Layout(root).stream_log(TABLE, STREAM).read_bytes()
        write_batch(fs, root, log, {A: [2], B: [3]}, 2)
    Layout(root).stream_log(TABLE, STREAM).write_bytes(older)


def _rebuild(fs: Fs, root: Path) -> None:
    layout = Layout(root)
    rebuild(TablePlace(fs, layout, TABLE), find(StreamPlace(fs, layout, TABLE, STREAM)), PositionChoice(), time_ms=1)


@pytest.mark.slow
def test_a_kill_or_a_power_cut_at_any_change_is_reported_and_the_same_call_ends_it(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    _tiny(tmp_path / "plain")
    plain = CrashingFs()
    _rebuild(plain, tmp_path / "plain")
    for after in some_of(range(plain.changes), 6):
        for seed in (None, 2 * after, 2 * after + 1):
            root = tmp_path / f"{after}-{seed}"
            root.mkdir()
            _tiny(root)
            fs = PowerCutFs(root, crash_after=after)
            with pytest.raises(Crash):
                _rebuild(fs, root)
            if seed is not None:
                fs.cut(seed)
            again = CrashingFs(boot="boot-2")
            with pytest.raises((CorruptFileError, PositionGapError)):  # until it is done, or its positions are given
                open_log(again, root)
            _rebuild(again, root)
            with open_log(again, root, schema=None) as log:
                assert read_state(again, root, log.state) == {A: [1, 2], B: [3]}
                assert log.state.epoch >= 3
            with pytest.raises(PositionGapError):
                open_log(again, root)
            assert load_stream(StreamPlace(again, Layout(root), TABLE, STREAM)).epoch >= 3
