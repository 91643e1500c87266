"""Feed files as they come: packed, cut, changed; and which of them a batch takes."""

from __future__ import annotations

import gzip
import lzma
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from sparkhaven.ingest.content.lines import line_blocks
from sparkhaven.ingest.content.packing import MAGIC_BYTES
from sparkhaven.ingest.feeds.files.listing import split_pattern
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.files.planner import FilePlanner
from sparkhaven.ingest.feeds.files.sample import row_bytes
from sparkhaven.ingest.spec import ColumnSpec, Format, Limit
from sparkhaven.store.epochs.state.file_positions import FileWindow
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import FeedError, PositionGapError
from sparkhaven.store.io.fs import Fs, Stat
from tests.support.ingest.ingest_cases import decode, file_id, schema, stream, values, write

ROWS = b"".join(b'{"v":%d}\n' % n for n in range(5000))
TABLE = schema(v="int")
PACKED = [("a.gz", gzip.compress(ROWS)), ("a.zst", zstandard.compress(ROWS)), ("a.xz", lzma.compress(ROWS))]
DAY = 86_400
NOW = 1_400_000_000


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", ROWS),
        ("a.json", ROWS[:-1]),
        ("a.json.gz", gzip.compress(ROWS)),
        ("a.gz", gzip.compress(ROWS[:9]) + gzip.compress(ROWS[9:]) + b"\0\0\0"),
        ("plain", gzip.compress(ROWS)),
        ("a.zst", zstandard.compress(ROWS)),
        ("a.json.zst", zstandard.compress(ROWS[:9]) + zstandard.compress(ROWS[9:])),
        ("a.json.xz", lzma.compress(ROWS)),
        ("plain", lzma.compress(ROWS[:9]) + b"\0" * 8 + lzma.compress(ROWS[9:]) + b"\0" * 4),
    ],
)
def test_packed_files_are_read_whole(tmp_path: Path, name: str, content: bytes) -> None:
    routed, rejects = decode(write(tmp_path / name, content), stream(), TABLE)
    assert values(routed) == list(range(5000))
    assert rejects.bad == 0


@pytest.mark.parametrize(("name", "packed"), PACKED)
def test_packed_file_that_is_cut(tmp_path: Path, name: str, packed: bytes) -> None:
    split = write(tmp_path / name, packed[:-5])
    with pytest.raises(FeedError, match="ends before its packed content does") as caught:
        decode(split, stream(), TABLE)
    assert caught.value.where == split.path
    assert caught.value.found == f"the end of the file at byte {split.size}"


@pytest.mark.parametrize(("name", "packed"), PACKED)
def test_packed_file_that_is_damaged(tmp_path: Path, name: str, packed: bytes) -> None:
    middle = len(packed) // 2
    flipped = packed[:middle] + bytes(255 - b for b in packed[middle : middle + 40]) + packed[middle + 40 :]
    with pytest.raises(FeedError, match="It cannot be unpacked"):
        decode(write(tmp_path / name, flipped), stream(), TABLE)


@pytest.mark.parametrize("name", ["a.gz", "a.json.zst", "a.xz"])
def test_name_that_promises_packing(tmp_path: Path, name: str) -> None:
    with pytest.raises(FeedError, match="not packed as its name says") as caught:
        decode(write(tmp_path / name, b'{"v":1}'), stream(), TABLE)
    assert b'{"v":1'.hex().startswith(str(caught.value.found))


@pytest.mark.parametrize("form", ["json", "csv"])
@pytest.mark.parametrize("name", ["a", "a.json", "a.json.gz", "a.gzip", "a.zst", "a.zstd", "a.csv.xz"])
def test_empty_file_has_no_rows(tmp_path: Path, name: str, form: Format) -> None:
    routed, rejects = decode(write(tmp_path / name, b""), stream(form=form), TABLE)
    assert (routed, rejects.read) == ([], 0)


def test_file_that_grew_before_it_was_read(tmp_path: Path) -> None:
    split = write(tmp_path / "a.json", ROWS)
    (tmp_path / "a.json").write_bytes(ROWS + b'{"v":1}\n')
    with pytest.raises(PositionGapError, match="changed after it was taken") as caught:
        decode(split, stream(), TABLE)
    assert str(caught.value.expected).startswith(f"{len(ROWS)} bytes")
    assert str(caught.value.found).startswith(f"{len(ROWS) + 8} bytes")


class MeddlingFs(Fs):
    """Changes a file as soon as a part of it has been read."""

    def __init__(self, path: Path, change: bytes, mode: str) -> None:
        self.path, self.change, self.mode = path, change, mode

    def read_range(self, path: Path, offset: int, length: int) -> bytes:
        data = super().read_range(path, offset, length)
        if offset == 0 and length > MAGIC_BYTES:
            with self.path.open(self.mode) as file:
                file.write(self.change)
        return data


@pytest.mark.parametrize(("change", "mode"), [(b'{"v":1}\n', "ab"), (ROWS[:100], "wb")])
def test_file_that_changes_while_it_is_read(tmp_path: Path, change: bytes, mode: str) -> None:
    content = ROWS * 50  # more than one chunk
    split = write(tmp_path / "a.json", content)
    after = len(content) + len(change) if mode == "ab" else len(change)
    with pytest.raises(PositionGapError, match="changed after it was taken") as caught:
        decode(split, stream(), TABLE, MeddlingFs(tmp_path / "a.json", change, mode))
    assert str(caught.value.expected).startswith(f"{len(content)} bytes")
    assert str(caught.value.found).startswith(f"{after} bytes")


def test_file_rewritten_in_place_with_its_old_time(tmp_path: Path) -> None:
    class Rewriting(Fs):
        def read_range(self, path: Path, offset: int, length: int) -> bytes:
            data = super().read_range(path, offset, length)
            path.write_bytes(ROWS.replace(b"7", b"8"))
            os.utime(path, ns=(split.mtime_ns, split.mtime_ns))
            return data

    split = write(tmp_path / "a.json", ROWS)
    with pytest.raises(PositionGapError, match="changed after it was taken"):
        decode(split, stream(), TABLE, Rewriting())


def test_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="feed file is gone"):
        decode(FileId(str(tmp_path / "x"), 3, 4), stream(), TABLE)


def test_line_that_is_too_long_is_skipped_alone() -> None:
    content = b"a\n" + b"x" * 5000 + b"\nb\nc"
    chunks = [content[at : at + 100] for at in range(0, len(content), 100)]
    blocks = list(line_blocks(chunks, block=200, max_line=1000))
    found = [(int(n), block.line(i)) for block in blocks for i, n in enumerate(block.numbers)]
    assert found == [(1, b"a"), (3, b"b"), (4, b"c")]
    long = [(line.number, len(line.head), line.size) for block in blocks for line in block.too_long]
    assert long == [(2, 1000, 5000)]


# --- planning ----------------------------------------------------------------------------------------------


class CountingFs(Fs):
    """Counts listings."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self.looked: list[str] = []

    def names(self, path: Path) -> list[str]:
        self.listed.append(path.name)
        return super().names(path)

    def stat(self, path: Path, *, follow: bool = True) -> Stat | None:
        self.looked.append(path.name)
        return super().stat(path, follow=follow)


def _put(path: Path, age_s: float, size: int = 10) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * (size - 1) + b"\n")
    os.utime(path, (NOW - age_s, NOW - age_s))


def _planner(pattern: Path, fs: Fs | None = None, taken: FileWindow | None = None, **limit: int) -> FilePlanner:
    feed = FilesOptions(str(pattern), max_per_trigger=Limit(**limit))
    return FilePlanner(fs or Fs(), feed, taken or FileWindow(), lambda: float(NOW), row_bytes=lambda file: 5.0)


def _names(files: tuple[FileId, ...]) -> list[str]:
    return [Path(file.path).name for file in files]


def test_oldest_first_and_hidden_names_are_left_out(tmp_path: Path) -> None:
    for name, age in {"c": 3, "a": 1, "b": 1, ".h": 5, "_s": 5}.items():
        _put(tmp_path / name, age)
    (tmp_path / "directory").mkdir()
    planner = _planner(tmp_path)
    assert _names(planner.plan().files) == ["c", "a", "b"]
    assert planner.plan().files == ()
    _put(tmp_path / "d", 2)
    assert _names(planner.plan().files) == ["d"]


@pytest.mark.parametrize(
    ("limit", "sizes"), [({"files": 2}, [2, 2, 1]), ({"bytes": 25}, [2, 2, 1]), ({"rows": 4}, [2, 2, 1]), ({}, [5])]
)
def test_limits(tmp_path: Path, limit: dict[str, Any], sizes: list[int]) -> None:
    for n in range(5):
        _put(tmp_path / f"{n}", 10 - n)
    planner = _planner(tmp_path, **limit)
    plans = [planner.plan() for _ in sizes]
    assert [len(plan.files) for plan in plans] == sizes
    assert [plan.waiting_files for plan in plans] == [5 - sum(sizes[: n + 1]) for n in range(len(sizes))]


def test_a_file_above_the_limit_is_taken_alone(tmp_path: Path) -> None:
    _put(tmp_path / "a", 2, 1000)
    _put(tmp_path / "b", 1, 1)
    assert _names(_planner(tmp_path, bytes=10).plan().files) == ["a"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.json", ["top.json"]),
        ("d=*/*.json", ["one.json", "two.json"]),
        ("**/*.json", ["deep.json", "one.json", "top.json", "two.json"]),
        ("**/e/*", ["deep.json"]),
        ("d=1/on?.json", ["one.json"]),
        ("**", ["deep.json", "one.json", "other.csv", "top.json", "two.json"]),
    ],
)
def test_patterns(tmp_path: Path, pattern: str, expected: list[str]) -> None:
    for name in ("top.json", "d=1/one.json", "d=2/two.json", "d=2/e/deep.json", "d=1/other.csv", ".d/hidden.json"):
        _put(tmp_path / name, 100)
    assert sorted(_names(_planner(tmp_path / pattern).plan().files)) == expected


def test_pattern_is_split_before_its_first_wildcard() -> None:
    assert split_pattern(Fs(), "/a/b/*.json") == (Path("/a/b"), ("*.json",))
    assert split_pattern(Fs(), "/a/b") == (Path("/a/b"), ())
    assert split_pattern(Fs(), "/a/**/**/b/**") == (Path("/a"), ("**", "b", "**"))


def test_directories_that_did_not_change_are_not_listed_again(tmp_path: Path) -> None:
    for day in ("1", "2", "3"):
        _put(tmp_path / f"d={day}" / "f", 100)
        os.utime(tmp_path / f"d={day}", (NOW - 50, NOW - 50))
    os.utime(tmp_path, (NOW - 50, NOW - 50))
    fs = CountingFs()
    planner = _planner(tmp_path / "d=*" / "*", fs)
    assert len(planner.plan().files) == 3
    fs.listed.clear()
    assert planner.plan().files == ()
    assert fs.listed == []
    _put(tmp_path / "d=2" / "g", 0)
    os.utime(tmp_path / "d=2", (NOW - 40, NOW - 40))
    assert _names(planner.plan().files) == ["g"]
    assert fs.listed == ["d=2"]


def test_directory_that_changed_just_now_is_listed_again(tmp_path: Path) -> None:
    _put(tmp_path / "a", 100)
    os.utime(tmp_path, (NOW, NOW))
    planner = _planner(tmp_path)
    assert _names(planner.plan().files) == ["a"]
    _put(tmp_path / "b", 100)
    os.utime(tmp_path, (NOW, NOW))  # the same tick of the clock
    assert _names(planner.plan().files) == ["b"]


def test_taken_files_are_not_taken_again_after_a_restart(tmp_path: Path) -> None:
    for n in range(4):
        _put(tmp_path / f"{n}", 10 - n)
    taken = FileWindow([file_id(tmp_path / "0"), file_id(tmp_path / "2")], 0)
    assert _names(_planner(tmp_path, taken=taken).plan().files) == ["1", "3"]


def test_taken_file_that_grew_stops_the_stream(tmp_path: Path) -> None:
    _put(tmp_path / "a", 100)
    planner = _planner(tmp_path)
    planner.plan()
    _put(tmp_path / "a", 50, 17)
    with pytest.raises(PositionGapError, match="changed after it was taken") as caught:
        planner.plan()
    assert str(caught.value.expected).startswith("10 bytes")
    assert str(caught.value.found).startswith("17 bytes")
    assert caught.value.where == str(tmp_path / "a")


def test_each_remembered_file_is_looked_at_in_turn(tmp_path: Path) -> None:
    for n in range(200):
        _put(tmp_path / f"{n:03}", 1000 - n)
    fs = CountingFs()
    planner = _planner(tmp_path, fs)
    planner.plan()
    fs.looked.clear()
    os.utime(tmp_path, (NOW - 40, NOW - 40))
    for _ in range(4):
        planner.plan()
    assert {f"{n:03}" for n in range(200)} <= set(fs.looked)
    assert len(fs.looked) < 300


def test_waiting_file_is_taken_as_it_is_now(tmp_path: Path) -> None:
    _put(tmp_path / "a", 100)
    _put(tmp_path / "b", 90)
    _put(tmp_path / "c", 80)
    planner = _planner(tmp_path, files=1)
    planner.plan()
    _put(tmp_path / "b", 70, 99)
    (tmp_path / "c").unlink()
    assert [file.size for file in planner.plan().files] == [99]
    assert planner.plan().files == ()


def test_older_newcomer_is_reported_once_and_never_taken(tmp_path: Path) -> None:
    _put(tmp_path / "new", 0)
    planner = _planner(tmp_path)
    assert _names(planner.plan().files) == ["new"]
    _put(tmp_path / "old", 8 * DAY)
    _put(tmp_path / "week", 6 * DAY)
    plan = planner.plan()
    assert (_names(plan.files), _names(plan.older)) == (["week"], ["old"])
    assert planner.plan().older == ()


def test_what_is_remembered_is_bounded(tmp_path: Path) -> None:
    _put(tmp_path / "a", 20 * DAY)
    _put(tmp_path / "b", 0)
    planner = _planner(tmp_path, files=1)
    planner.plan()
    planner.plan()
    assert planner._window.known(str(tmp_path / "a")) is None
    assert planner.plan().files == ()


def test_freeze_leaves_later_files_for_the_next_run(tmp_path: Path) -> None:
    _put(tmp_path / "a", 100)
    planner = _planner(tmp_path)
    planner.freeze()
    _put(tmp_path / "b", 90)
    assert _names(planner.plan().files) == ["a"]
    assert planner.plan().files == ()


def test_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="directory does not exist") as caught:
        _planner(tmp_path / "nowhere" / "*.json").plan()
    assert caught.value.where == str(tmp_path / "nowhere")


def test_rows_are_guessed_from_the_head(tmp_path: Path) -> None:
    split = write(tmp_path / "a.json", ROWS)
    assert row_bytes(Fs(), split, "json") == pytest.approx(len(ROWS) / 5000)
    assert row_bytes(Fs(), write(tmp_path / "e.json", b""), "json") == 150.0


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_rows_of_which_no_field_is_taken(tmp_path: Path, form: Any) -> None:
    """Each row of a file is a row of the table, whatever columns are read of it."""
    path = tmp_path / "rows"
    if form == "parquet":
        pq.write_table(pa.table({"other": range(300)}), path, row_group_size=100)
    else:
        path.write_text("\n".join(["other", *map(str, range(300))] if form == "csv" else ['{"other": 1}'] * 300))
    columns = (ColumnSpec("f", meta="file"), ColumnSpec("l", meta="line"))
    routed, rejects = decode(file_id(path), stream(*columns, form=form), schema(f="String", l="long"))
    first = 2 if form == "csv" else 1
    assert values(routed, "l") == [*range(first, first + 300)]
    assert (set(values(routed, "f")), rejects.bad, rejects.ignored) == ({str(path)}, 0, {"other": 300})
