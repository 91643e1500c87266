"""States that the checker has a code for, each made in a small root, and what each command says of them."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from sparkhaven.jobs.monitor.doctor.checks import of_data
from sparkhaven.jobs.monitor.doctor.finding import CheckContext
from sparkhaven.readers.checks.history import stored_entries
from sparkhaven.readers.checks.verify import verify
from sparkhaven.readers.inspect.any_file import inspect_file
from sparkhaven.store.epochs.files.head import decode_head, encode_head, open_head
from sparkhaven.store.epochs.reading.log_reader import read_files
from sparkhaven.store.epochs.recovery.set_aside import set_aside
from sparkhaven.store.epochs.state.locations import Locations
from sparkhaven.store.epochs.state.log_records import CommitRecord, encode
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.format.column.prefix import encode_prefix
from sparkhaven.store.format.parquet.trees import staged
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.framing import frame
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.merges.dropped_tables import DropPhase, decode_drop, encode_drop
from sparkhaven.store.merges.merge_records import MergeInput, load_record, newest, store_record
from sparkhaven.store.merges.merge_run import MergePhase, Proof
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.committed_columns import RangeStats
from sparkhaven.writers.merge.publish.staged_locations import store_entries
from sparkhaven.writers.partitions import add_partition
from tests.support.commands import run, run_json
from tests.support.disks.contents import flip
from tests.support.moves.operations import Spot, copied_date_to_other_root, database
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.small_tables import SmallTable
from tests.support.writers.export_cases import NEXT
from tests.support.writers.extended_cases import Rows, add, follow, table
from tests.support.writers.merge_cases import DAY, SCHEMA, as_table, random_row
from tests.support.writers.merge_cases import TABLE as EVERY
from tests.support.writers.merge_runs import FS, make, merge
from tests.support.writers.removals import empty

DATE = "2026-11-20"
NS_T = TableName("NS", "T")
COMMANDS = ("verify", "deep", "scrub", "inspect", "doctor", "metadata", "compare")
NOW = 1_900_000_000.0


@dataclass
class Case:
    """A root before it is damaged. ``file``: the one that ``inspect`` gets. ``twin``: a root to compare with."""

    base: Path
    root: Path
    twin: Path
    table: TableName
    file: Path | None = None
    old: dict[str, bytes] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        """Where its files are."""
        return Layout(self.root)

    @property
    def place(self) -> TablePlace:
        """The files of its table."""
        return TablePlace(FS, self.layout, self.table)

    def live(self, name: str, internal: str = "a") -> Path:
        """A file of an intraday location."""
        self.file = self.layout.intraday_location(self.table, LocationKey(internal, DATE)) / name
        return self.file

    def kept(self, name: str = "", partition: str = "0") -> Path:
        """A file of a location of history, or its directory."""
        path = self.layout.history_location(self.table, LocationKey(partition, DAY)) / name
        self.file = path if name else None
        return path

    def stream(self, suffix: str = ".log") -> Path:
        """A file of the stream."""
        self.file = self.place.streams / f"s{suffix}"
        return self.file

    def outside(self, *names: str, column: str = "Size") -> None:
        """Copies of files of a column, without anything beside them; the first is inspected."""
        target = self.base / "outside"
        target.mkdir()
        for name in names:
            shutil.copy(self.live(f"{column}{name}"), target)
        self.file = target / f"{column}{names[0]}"


def _small(root: Path) -> SmallTable:
    small = SmallTable(root)
    small.add("a", DATE, {"Sym": ["X", None, "Y"], "Size": [1, 2, None], "Note": ["hi", None, "e"]})
    small.add("a", DATE, {"Sym": ["Z"], "Size": [5], "Px": [1.5], "At": [7], "Live": [False]})
    small.add("b", DATE, {"Sym": ["Q"], "Size": [9]})
    return small


def _close(small: SmallTable) -> None:
    for log in small.logs.values():
        log.write_head()
        log.close()


def _intraday(root: Path) -> dict[str, bytes]:
    small = _small(root)
    path = small.location("a", DATE) / "table.size"
    small.commit(small.append("a", DATE, {"Size": [6]}))
    old = path.read_bytes()
    small.commit(small.append("a", DATE, {"Size": [7]}))
    _close(small)
    return {"table.size": old}


def _unpublished(root: Path) -> dict[str, bytes]:
    small = _small(root)
    small.commit(small.append("a", DATE, {"Size": [6]}), publish=False)
    small.logs["s"].close()
    return {}


def _statistics(root: Path) -> dict[str, bytes]:
    small = _small(root)
    report = small.append("a", DATE, {"Size": [50, 60]})
    small.commit(replace(report, stats={**report.stats, "Size": RangeStats(4, 6, 0, 0, 50, 55)}))
    _close(small)
    return {}


def _offsets(root: Path) -> dict[str, bytes]:
    small = _small(root)
    small.commit(ranges=(OffsetRange("t", 0, 5, 20, "id-1"),))
    _close(small)
    return {}


def _by_hand(root: Path) -> dict[str, bytes]:
    small = _small(root)
    small.merge_by_hand(DATE)
    record = load_record(small.place, DATE, 0)
    rows = record.inputs[0].rows
    store_record(small.place, replace(record, proof=Proof(rows, rows, {}, {})))
    _close(small)
    return {}


def _doubled(root: Path) -> dict[str, bytes]:
    small = SmallTable(root)
    small.add("a", DATE, {"Sym": ["Z", "X"], "Size": [1, 2]})
    small._symbols.clear()
    small.add("a", DATE, {"Sym": ["Z"], "Size": [5]})
    small.merge_by_hand(DATE)
    _close(small)
    return {}


def _two_streams(root: Path) -> dict[str, bytes]:
    small = _small(root)
    small.commit(small.append("b", DATE, {"Size": [6]}, stream="t"), stream="t")
    _close(small)
    return {}


def _merged(root: Path) -> dict[str, bytes]:
    db, _ = make(root, 30)
    merge(db.layout)
    db.log.close()
    return {}


def _indexed(root: Path, form: str = "deephaven") -> dict[str, bytes]:
    schema = SCHEMA.replace(b"</Table>", b'<DataIndex columns="S"/></Table>')
    chance = random.Random(3)
    db = IntradayRows(root, schema, fs=FS)
    db.commit({("a", DAY): as_table([random_row(chance) for _ in range(50)])})
    add_partition(FS, db.layout, "Test", "0")
    merge(db.layout, format=form)
    db.log.close()
    return {}


def _parquet(root: Path) -> dict[str, bytes]:
    return _indexed(root, "parquet")


def _again(root: Path) -> dict[str, bytes]:
    db, _ = make(root, 30)
    merge(db.layout)
    merge(db.layout, rewrite=True)
    db.log.close()
    return {}


def _emptied(root: Path) -> dict[str, bytes]:
    db, _ = make(root, 30)
    merge(db.layout)
    empty(db)
    db.log.close()
    return {}


def _tree(root: Path) -> dict[str, bytes]:
    db = table(root, "parquet:kv")
    rows: Rows = []
    add(db, rows, DAY, 20)
    add(db, rows, NEXT, 9)
    merge(db.layout, DAY, NEXT)
    follow(db)
    db.log.close()
    return {}


def _imported(root: Path) -> dict[str, bytes]:
    database(root.parent, "0").rename(root)
    return {}


@cache
def _built(base: Callable[[Path], dict[str, bytes]], directory: Path) -> tuple[Path, dict[str, bytes]]:
    root = directory / base.__name__.strip("_") / "root"
    root.parent.mkdir(parents=True)
    return root, base(root)


TABLES = {_merged: EVERY, _indexed: EVERY, _parquet: EVERY, _again: EVERY, _emptied: EVERY, _tree: EVERY}


@dataclass(frozen=True)
class State:
    """A state that has a code. ``shown``: the commands that say it."""

    code: str
    base: Callable[[Path], dict[str, bytes]]
    make: Callable[[Case], object]
    shown: str

    def case(self, shared: Path, base: Path) -> Case:
        """A root in this state."""
        built, old = _built(self.base, shared)
        for name in ("db", "twin"):
            shutil.copytree(built, base / name, symlinks=True)
        case = Case(base, base / "db", base / "twin", TABLES.get(self.base, NS_T), old=old)
        self.make(case)
        return case


def codes_of(case: Case) -> Iterator[tuple[str, set[str], int | None]]:
    """Of each command the codes that it says, and its exit code."""
    for name, deep in (("verify", False), ("deep", True)):
        report = verify(FS, case.layout, deep=deep)
        yield name, {found.code for found in report.findings}, int(bool(report.errors))
    code, value = run_json(case.root, "scrub", "--rate", "1GB")
    yield "scrub", {found["code"] for found in value["findings"]}, code
    inspected = case.file is not None and case.file.is_file() and inspect_file(FS, case.file)
    yield "inspect", {found.code for found in inspected.findings} if inspected else set(), None
    context = CheckContext(FS, case.layout, NOW, "h", os.environ)
    lines = of_data(context, verified=True)
    yield "doctor", {line.code for line in lines if line.code}, int(any(line.state == "wrong" for line in lines))
    yield "metadata", set(_differences(case)), None
    yield "compare", set(_compared(case)), None


def _json_lines(root: Path, *words: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(root, *words, "--json").stdout.splitlines()]


def _differences(case: Case) -> Iterator[str]:
    for line in _json_lines(case.root, "metadata", "validate"):
        different = (*line.get("differences", ()), *line.get("locations", {}).get("differences", ()))
        yield from (part["code"] for part in different)


def _compared(case: Case) -> Iterator[str]:
    for line in _json_lines(case.root, "compare", case.twin, "--whole-rows"):
        yield from (part["code"] for part in line.get("findings", ()))
        if "code" in line:
            yield line["code"]


def _edit(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def _copied(case: Case, name: str) -> None:
    shutil.copy(case.live("Size.dat"), case.live(name))


def _overflowing(case: Case) -> None:
    path, schema = case.live("Sym.dat"), load_deployed(case.place)
    column = schema.column("Sym")
    assert column is not None
    prefix = encode_prefix(column, overflow=True)
    _edit(path, lambda data: prefix.ljust(4096, b"\0") + data[4096:])


def _foreign_definition(case: Case) -> None:
    target = _moved(case, copy=True)
    other = SmallTable(case.base / "other")
    (target / "T" / "table.tbl").write_bytes(encode_tbl(other.schema))


def _unproved_index(case: Case) -> None:
    record = newest(case.place, DAY)
    assert record is not None
    outputs = tuple(replace(output, indexes={}) for output in record.outputs)
    store_record(case.place, replace(record, outputs=outputs))


def _dropped(case: Case) -> Path:
    done = run(case.root, "drop", "NS.T", "--yes")
    assert done.exit_code == 0, done.output
    (case.file,) = case.root.rglob("*.drop")
    return case.file


def _lost_drop(case: Case) -> None:
    path = _dropped(case)
    drop = decode_drop(path.read_bytes(), path)
    path.with_name("3.drop").write_bytes(encode_drop(replace(drop, number=3)))


def _half_dropped(case: Case) -> None:
    path = _dropped(case)
    drop = decode_drop(path.read_bytes(), path)
    first = next(phase for phase in DropPhase if phase is not DropPhase.REMOVED)
    path.write_bytes(encode_drop(replace(drop, phase=first)))


def _user_lock(case: Case) -> None:
    case.file = case.base / ".T-LOCKFILE"
    case.file.write_bytes(b"x")


def _other_size(case: Case) -> None:
    _edit(case.live("table.size"), lambda data: table_size.encode(_more(table_size.decode(data, "x"))))


def _more(record: table_size.TableSize) -> table_size.TableSize:
    return replace(record, size=record.size + 1)


def _other_definition(case: Case) -> None:
    path = case.live("table.tbl")
    other = SmallTable(case.base / "other", (SmallTable.__init__.__globals__["SCHEMA"]).replace('"Px"', '"Pz"'))
    path.write_bytes(encode_tbl(other.schema))


def _last_dropped(case: Case) -> None:
    case.stream(".head").unlink()
    log = read_files(case.place.of_stream("s"))
    _edit(case.stream(), lambda data: data[: log.places[-1][0]])


def _taken_twice(case: Case) -> None:
    log = read_files(case.place.of_stream("s"))
    last = next(record for record in reversed(log.records) if isinstance(record, CommitRecord))
    again = replace(last, n=log.records[-1].n + 1, epoch=last.epoch + 1, batch=replace(last.batch, reports=(), rows=3))
    _edit(case.stream(), lambda data: data + frame(encode(again)))


def _other_head(case: Case) -> None:
    path = case.stream(".head")
    found = decode_head(open_head(path.read_bytes(), path), "s", path.stat().st_size)
    path.write_bytes(encode_head(replace(found, state=replace(found.state, locations=Locations()))))


def _other_record(case: Case, **parts: Any) -> None:
    case.file = case.place.merges / DATE / "0.json"
    record = load_record(case.place, DATE, 0)
    store_record(case.place, replace(record, **parts))


def _ahead(case: Case) -> None:
    known = load_record(case.place, DATE, 0).inputs[0]
    _other_record(case, inputs=(MergeInput("s", "a", known.since, known.epoch, 1000),))


def _unfinished(case: Case, internal: str = "5") -> None:
    record = load_record(case.place, DATE, 0)
    coming = replace(record.outputs[0], internal=internal)
    store_record(case.place, replace(record, generation=1, phase=MergePhase.SYNC, outputs=(coming,)))
    case.file = case.place.merges / DATE / "1.json"


def _coming(case: Case) -> None:
    _unfinished(case)
    source = case.layout.history_location(case.table, LocationKey("0", DATE))
    shutil.copytree(source, case.layout.history_location(case.table, LocationKey("5", DATE)))


def _index(case: Case, change: Callable[[Any], Any], *, merging: bool = False) -> None:
    entries = stored_entries(case.place)
    assert entries
    key = min(entries)
    store_entries(case.place, entries | {key: change(entries[key])})
    if merging:
        record = load_record(case.place, DAY, 0 if (case.place.merges / DAY / "0.json").exists() else 1)
        store_record(case.place, replace(record, generation=record.generation + 1, phase=MergePhase.SYNC, outputs=()))
    case.file = case.place.metadata_index


def _elsewhere(case: Case) -> None:
    case.root = copied_date_to_other_root(Spot(case.root, case.base / "elsewhere"))


def _moved(case: Case, *, copy: bool = False, lost: bool = False) -> Path:
    spot = Spot(case.root)
    target = spot.in_free(spot.date)
    target.parent.mkdir(parents=True, exist_ok=True)
    if copy:
        shutil.copytree(spot.date, target)
    else:
        spot.date.rename(target)
    if lost:
        (target / "T" / "X.dat").unlink()
    return target


def _without_schema(case: Case) -> None:
    """The location of a table alone, as a copy into another root has it."""
    location = next(path.parent for path in sorted(case.layout.root.rglob("Systems/*/Partitions/*/*/*/table.size")))
    shutil.copytree(location, location.with_name("Copied"))


def _bare(case: Case) -> None:
    target = _moved(case, copy=True)
    (target / "T" / "table.size").unlink()


def _tree_file(case: Case) -> Path:
    return next(path for path in sorted(case.layout.extended(EVERY).rglob("*.parquet")))


def _stray_leaf(case: Case) -> None:
    leaf = _tree_file(case)
    shutil.copy(leaf, leaf.with_name("more.parquet"))


def _busy(case: Case) -> None:
    _stray_leaf(case)
    staged(case.layout.extended(EVERY)).mkdir()


def _aside(case: Case) -> None:
    set_aside(case.place.of_stream("s"), LocationKey("b", DATE), reason="damaged", time_ms=1)


def _only_here(case: Case) -> None:
    for part in (Layout(case.twin).schemas(), case.twin / "Intraday", case.twin / "Systems"):
        shutil.rmtree(part, ignore_errors=True)


def _broken_link(case: Case) -> None:
    links = case.layout.writable_partitions("NS")
    links.mkdir(parents=True)
    (links / "9").symlink_to("../Partitions/9")


STATES = (
    State("E201", _intraday, lambda case: case.live("table.size").write_bytes(b"x"), "verify deep inspect doctor"),
    State(
        "E202",
        _intraday,
        lambda case: (case.live("table.size").unlink(), case.live("table.size").mkdir()),
        "verify deep doctor compare",
    ),
    State(
        "E203",
        _intraday,
        lambda case: (case.live("Size.dat").unlink(), case.live("table.size")),
        "verify deep scrub inspect doctor compare",
    ),
    State(
        "E204",
        _intraday,
        lambda case: _edit(case.live("Size.dat"), lambda data: data[:-1]),
        "verify deep scrub inspect doctor compare",
    ),
    State("E205", _intraday, lambda case: flip(case.live("Px.dat"), 4096 + 9), "deep scrub inspect compare"),
    State(
        "E206",
        _indexed,
        lambda case: _edit(case.kept("Index-S/S.dat"), lambda data: data + b"x"),
        "verify deep scrub doctor",
    ),
    State(
        "W206",
        _intraday,
        lambda case: _edit(case.live("Size.dat"), lambda data: data + b"tail"),
        "verify deep inspect doctor",
    ),
    State(
        "W207", _intraday, lambda case: shutil.copy(case.live("Size.dat"), case.live("Old.dat")), "verify deep doctor"
    ),
    State("N208", _intraday, lambda case: case.live(".table.size.tmp-12").write_bytes(b"x"), "verify deep inspect"),
    State("N210", _intraday, lambda case: case.live("notes.bin").write_bytes(b"x"), "inspect"),
    State("N214", _intraday, lambda case: case.outside(".dat"), "inspect"),
    State("W216", _intraday, lambda case: case.outside(".sym", ".sym.bytes", column="Sym"), "inspect"),
    State(
        "W217",
        _intraday,
        lambda case: (case.outside(".dat"), _edit(case.file or Path(), lambda data: data + b"x")),
        "inspect",
    ),
    State("N219", _intraday, lambda case: case.stream(".lock").write_bytes(b""), "inspect"),
    State("E221", _intraday, lambda case: shutil.rmtree(case.live("x", "b").parent), "verify deep doctor"),
    State("E222", _intraday, lambda case: case.live("table.tbl").unlink(), "verify deep doctor"),
    State("E223", _intraday, _other_definition, "verify deep doctor"),
    State("E224", _merged, lambda case: case.kept("table.size").unlink(), "verify deep doctor"),
    State("W224", _intraday, lambda case: case.live("table.size").unlink(), "verify deep doctor"),
    State("E226", _intraday, _other_size, "verify deep doctor"),
    State("W226", _unpublished, lambda case: None, "verify deep doctor"),
    State("W229", _intraday, lambda case: case.live("x", "c").parent.mkdir(parents=True), "verify deep doctor"),
    State("W230", _intraday, _aside, "verify deep doctor"),
    State("N231", _intraday, lambda case: (case.live("x").parent.parent / ".set-aside-1").mkdir(), "verify deep"),
    State("N232", _intraday, lambda case: (case.live("x").parent.parent / ".doomed-1").mkdir(), "verify deep"),
    State("N234", _intraday, lambda case: run(case.root, "epochs", "undo", "NS.T", "s", "--epoch", "3"), "verify deep"),
    State("E236", _intraday, _broken_link, "verify deep doctor"),
    State("W241", _by_hand, lambda case: None, "deep"),
    State("E242", _statistics, lambda case: None, "deep"),
    State("E253", _indexed, lambda case: shutil.rmtree(case.kept("Index-S")), "verify deep doctor"),
    State("E261", _merged, lambda case: case.place.metadata_index.unlink(), "verify deep doctor metadata"),
    State("W261", _imported, _elsewhere, "verify deep doctor metadata"),
    State(
        "E262",
        _merged,
        lambda case: _index(case, lambda entry: replace(entry, rows=entry.rows + 1)),
        "verify deep doctor metadata",
    ),
    State(
        "W262",
        _merged,
        lambda case: _index(case, lambda entry: replace(entry, rows=entry.rows + 1), merging=True),
        "verify deep doctor metadata",
    ),
    State(
        "E263",
        _merged,
        lambda case: _index(case, lambda entry: replace(entry, modified_ms=entry.modified_ms + 1)),
        "verify deep doctor metadata",
    ),
    State("E271", _by_hand, lambda case: _other_record(case, proof=Proof(2, 1, {}, {})), "verify deep inspect doctor"),
    State("E272", _by_hand, _ahead, "verify deep doctor"),
    State("N273", _by_hand, _unfinished, "verify deep inspect"),
    State("E274", _emptied, lambda case: shutil.rmtree(case.place.merges / DAY), "verify deep doctor"),
    State("N275", _imported, _moved, "verify deep"),
    State("W276", _imported, lambda case: _moved(case, copy=True), "verify deep doctor"),
    State("W277", _imported, lambda case: _moved(case, copy=True, lost=True), "verify deep doctor"),
    State("W278", _imported, _bare, "verify deep doctor"),
    State("N279", _by_hand, _coming, "verify deep"),
    State("N280", _again, lambda case: None, "verify deep"),
    State("E301", _intraday, _last_dropped, "verify deep doctor"),
    State("E302", _intraday, _taken_twice, "verify deep doctor"),
    State("E303", _offsets, _taken_twice, "verify deep doctor"),
    State("E304", _intraday, _taken_twice, "verify deep doctor"),
    State("N308", _intraday, lambda case: _edit(case.stream(".head"), lambda data: data[:-1]), "verify deep inspect"),
    State("E308", _intraday, _other_head, "verify deep doctor"),
    State(
        "W310", _intraday, lambda case: _edit(case.stream(), lambda data: data + b"torn"), "verify deep inspect doctor"
    ),
    State("N311", _intraday, lambda case: (case.place.streams / ".replaced-1").mkdir(), "verify deep"),
    State("N312", _intraday, lambda case: (case.place.streams / "x.lock").write_bytes(b""), "verify deep"),
    State("N313", _intraday, lambda case: case.stream(".failure").write_bytes(b"x"), "verify deep inspect doctor"),
    State("W322", _tree, lambda case: shutil.rmtree(case.layout.extended(EVERY)), "verify deep doctor"),
    State(
        "E323",
        _tree,
        lambda case: next(case.layout.extended(EVERY).glob("*.json")).unlink(),
        "verify deep doctor",
    ),
    State("E324", _tree, _stray_leaf, "verify deep doctor"),
    State("W326", _tree, _busy, "verify deep doctor"),
    State("W218", _intraday, _user_lock, "inspect"),
    State("N223", _imported, _foreign_definition, "verify deep"),
    State("E227", _intraday, _overflowing, "verify deep doctor"),
    State("E228", _intraday, lambda case: case.live("Sym.ovr").write_bytes(b"x"), "verify deep inspect doctor"),
    State("E233", _two_streams, lambda case: None, "verify deep doctor"),
    State("N246", _doubled, lambda case: case.live("Sym.sym"), "deep inspect"),
    State("W246", _doubled, lambda case: None, "deep"),
    State("N247", _doubled, lambda case: None, "deep"),
    State("E252", _parquet, _unproved_index, "verify deep doctor"),
    State("W282", _imported, _without_schema, "verify deep"),
    State("N281", _intraday, _half_dropped, "inspect"),
    State("N321", _intraday, lambda case: (case.place.extended / "x").mkdir(parents=True), "verify deep"),
    State("E335", _intraday, _lost_drop, "verify deep doctor"),
    State("E361", _intraday, _only_here, "compare"),
    State("E362", _intraday, lambda case: run(case.twin, "epochs", "undo", "NS.T", "s", "--epoch", "3"), "compare"),
)
