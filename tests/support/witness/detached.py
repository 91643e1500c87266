"""Damage to a date that is detached, outside of the tree: what `inspect` and `dates attach` make of it.

The date was detached twice, the second time with late rows, which are damaged. Attaching brings back both parts, each
row once, or is an error that names the file, and brings back the first part at most.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.manifest import DETACHED
from sparkhaven.store.layout import TableName
from tests.support.commands import run
from tests.support.witness.apart import create
from tests.support.witness.commands import CORRECT, ERROR, RAW, WRONG, Outcome
from tests.support.witness.damage import DAMAGES, Kind, flip, permissions_hold, remove, same
from tests.support.witness.story import DONE, MERGED, command

AWAY = TableName("Test", "Away")
COLUMNS = ("inspect", "dates attach")
_SECOND, _FIRST, _OTHER = f"Test.Away/{DONE}.g3", f"Test.Away/{DONE}.g1", f"Test.Away/{MERGED}.g1"
_DATA = "locations/0.s3/N.dat"
KINDS = (
    Kind("detached date (directory)", _SECOND, _OTHER),
    Kind("detached.json", f"{_SECOND}/{DETACHED.name}", f"{_OTHER}/{DETACHED.name}"),
    Kind(".dat of a detached date, prefix", f"{_SECOND}/{_DATA}", f"{_SECOND}/locations/0.s3/Sym.dat"),
    Kind(".dat of a detached date, data", f"{_SECOND}/{_DATA}", f"{_OTHER}/locations/0/N.dat"),
    Kind("table.size of a detached date", f"{_SECOND}/locations/0.s3/table.size", f"{_OTHER}/locations/0/table.size"),
)
OLDER = {_SECOND: _FIRST, f"{_SECOND}/{DETACHED.name}": f"{_FIRST}/{DETACHED.name}"}


@dataclass(frozen=True, slots=True)
class Away:
    """A database, the directory to which dates of it are detached, and a copy of that without damage."""

    root: Path
    out: Path
    sound: Path


def line(kind: Kind, damage: str, results: Mapping[str, Outcome]) -> str:
    """One line of the table."""
    return f"| {kind.name} | {damage} | {' | '.join(results[name].word for name in COLUMNS)} |"


def lines(base: Path) -> Iterator[str]:
    """The table of the page."""
    yield from (f"| file | damage | {' | '.join(f'`{name}`' for name in COLUMNS)} |", "|---" * (2 + len(COLUMNS)) + "|")
    away = make_away(base / "away")
    for kind, damage, results in damaged(away, base):
        yield line(kind, damage, results)


def make_away(base: Path) -> Away:
    """``DONE`` was detached twice, ``MERGED`` once."""
    away = Away(base / "db", base / "out", base / "sound")
    away.root.mkdir(parents=True)
    command(away.root, "partitions", "add", "Test", "0")
    for number, (date, source) in enumerate(((DONE, "a"), (MERGED, "a"), (DONE, "b"))):
        create(away.root, AWAY, date, range(number * 20, number * 20 + 20), source)
        day = (str(AWAY), "--dates", date)
        for words in (("merge",), ("validate",), ("truncate",), ("delete", "--grace", "0")):
            command(away.root, words[0], *day, *words[1:])
        command(away.root, "dates", "detach", *day, "--out", str(away.out))
    shutil.copytree(away.out, away.sound)
    return away


def outcomes(away: Away, base: Path, kind: Kind, damage: str) -> dict[str, Outcome] | None:
    """Both commands on a copy with the damage; None where the damage would change nothing."""
    looked = replace(away, root=base / "looked")
    shutil.copytree(away.root, looked.root, symlinks=True)
    try:
        if not _damaged(away.out, kind, damage):
            return None
        manifest = away.out / _SECOND / DETACHED.name
        return {"inspect": _called(looked.root, "inspect", str(manifest)), "dates attach": _attach(looked)}
    finally:
        shutil.rmtree(looked.root)
        for path in away.out.rglob("*"):
            path.chmod(0o700)
        shutil.rmtree(away.out)
        shutil.copytree(away.sound, away.out)


def _damaged(out: Path, kind: Kind, damage: str) -> bool:
    path = out / kind.path
    if damage == "none":
        return True
    if damage == "unreadable":
        path.chmod(0)
        return True
    if damage == "lost":
        remove(path)
        return True
    if damage in ("older copy", "newer copy", "foreign copy"):
        other = kind.foreign if damage == "foreign copy" else OLDER.get(kind.path) if damage == "older copy" else None
        if other is None or same(out / other, path):
            return False
        remove(path)
        (shutil.copytree if (out / other).is_dir() else shutil.copyfile)(out / other, path)
        return True
    if path.is_dir():
        return False
    data = bytearray(path.read_bytes())
    if damage == "bit flipped":
        flip(data, kind, 0)
    else:
        del data[len(data) // 2 if damage == "cut short" else 0 :]
    path.write_bytes(data)
    return True


def _called(root: Path, *words: str) -> Outcome:
    with permissions_hold():
        done = run(root, *words)
    said = done.output.strip()
    if "unexpected error" in said:
        return Outcome(RAW, said)
    return Outcome(CORRECT if done.exit_code == 0 else ERROR, said)


def _attach(away: Away) -> Outcome:
    """All rows, or an error and those of the other part; then verify finds nothing wrong with the tree."""
    done = _called(away.root, "dates", "attach", str(AWAY), str(away.out))
    try:
        numbers = open_table(away.root, str(AWAY)).to_arrow("N", dates=DONE)["N"].to_pylist()
    except SparkhavenError as error:
        return Outcome(WRONG, f"read: {error}")
    first = [*range(20)]
    wanted = [[*first, *range(40, 60)]] if done.word == CORRECT else [[], first]
    if done.word in (CORRECT, ERROR) and sorted(numbers) not in wanted:
        return Outcome(WRONG, f"{len(numbers)} rows after: {done.said}")
    checked = _called(away.root, "verify", "--deep")
    return done if checked.word == CORRECT else Outcome(WRONG, checked.said)


def damaged(away: Away, base: Path) -> Iterator[tuple[Kind, str, dict[str, Outcome]]]:
    """Every damage that changes something, with what the commands did."""
    for kind in KINDS:
        for damage in DAMAGES:
            if (results := outcomes(away, base, kind, damage)) is not None:
                yield kind, damage, results
