"""The commands of the table of damages, each called on a damaged tree, and a word for what came of it.

``correct``        the command succeeds, and every row is read as it was committed
``error``          it ends with an error that says what is wrong; of a check, it reports an error
``error on read``  it succeeds without a look at what is damaged; the next reader that needs it ends with an error
``remark``         a check reports a remark, and finds nothing lost
``deep only``      ``verify`` without ``--deep`` does not look there; ``--deep`` reports it
``harmless``       nothing to report: every command is correct, and the file is a cache or lost nothing committed
``SILENTLY WRONG``, ``RAW ERROR``  what may not be
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sparkhaven.jobs.monitor.page.collect import FactCollector, PageScope
from sparkhaven.store.errors import SparkhavenError, as_ours
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from tests.support.commands import run
from tests.support.witness.damage import Kind, Trees, permissions_hold
from tests.support.witness.story import OPEN, REMOVED, STREAM, Row, Writer, expected, read_rows, rows

COMMANDS = ("read", "ingest", "recover", "merge", "page", "verify", "verify --deep")
CORRECT, ERROR, ERROR_ON_READ, REMARK, DEEP_ONLY = "correct", "error", "error on read", "remark", "deep only"
HARMLESS = "harmless"
WRONG, RAW = "SILENTLY WRONG", "RAW ERROR"
NOW_S = 2e9
Counted = tuple[str, str, str, int]  # table, date, source, rows
NEW = {
    STREAM: (*rows(range(600, 610), "a", OPEN), *rows(range(610, 620), "e", OPEN)),
    REMOVED: (*rows(range(610, 620), "g", OPEN),),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one command did: the word of the table, and what it said."""

    word: str
    said: str = ""


def outcomes(trees: Trees, base: Path, kind: Kind, damage: str, seed: int = 0) -> dict[str, Outcome] | None:
    """Every command on a tree of its own with the same damage; None where the damage would change nothing."""
    looked = base / "looked"
    try:
        if not trees.damaged(looked, kind, damage, seed):
            return None
        found = {"read": _read(looked), "page": _page(looked, trees)}
        shallow, deep = _check(looked), _check(looked, "--deep")
        for name, change in (("ingest", _ingest), ("recover", _recover), ("merge", _merge)):
            changed = base / name
            trees.damaged(changed, kind, damage, seed)
            found[name] = change(changed, kind)
            shutil.rmtree(changed)
        if deep.word == CORRECT:
            needless = kind.cache or damage in ("older copy", "newer copy")
            harmless = needless and all(each.word == CORRECT for each in found.values())
            deep = Outcome(HARMLESS if harmless else WRONG, deep.said)
        if shallow.word == CORRECT:
            shallow = Outcome(DEEP_ONLY if deep.word in (ERROR, REMARK) else deep.word, shallow.said)
        found |= {"verify": shallow, "verify --deep": deep}
        return {name: found[name] for name in COMMANDS}
    finally:
        shutil.rmtree(looked, ignore_errors=True)
        shutil.rmtree(base / "ingest-feed", ignore_errors=True)


def _read(root: Path, more: Sequence[Row] = ()) -> Outcome:
    def look() -> Outcome:
        for tier in ("all", "intraday"):
            found, wanted = read_rows(root, tier), sorted([*expected(tier), *more], key=lambda row: row["N"])
            if found != wanted:
                there, due = {row["N"] for row in found}, {row["N"] for row in wanted}
                parts = f"lost {sorted(due - there)[:5]}, more {list(there - due)[:5]}"
                return Outcome(WRONG, f"tier {tier}: {len(found)} rows for {len(wanted)}; {parts}")
        return Outcome(CORRECT)

    return _caught(look)


def _page(root: Path, trees: Trees) -> Outcome:
    """The facts of the operations page: those of the tree without damage, or an error among them."""

    def look() -> Outcome:
        counted, said = _facts(root)
        wanted, known = _undamaged(trees.now)
        new = sorted(said - known)
        if new:
            return Outcome(ERROR, new[0])
        return Outcome(CORRECT) if counted == wanted else Outcome(WRONG, f"rows {sorted(counted ^ wanted)}")

    return _caught(look)


@lru_cache(maxsize=1)
def _undamaged(root: Path) -> tuple[frozenset[Counted], frozenset[str]]:
    return _facts(root)


def _facts(root: Path) -> tuple[frozenset[Counted], frozenset[str]]:
    """Rows by table, date and source, and what is said of errors; nothing of the machine."""
    collector = FactCollector(Fs(), Layout(root), PageScope(), lambda: NOW_S, "here", {}, _machine=(NOW_S, []))
    facts = collector.collect()
    told = {error.what for table in facts.tables for error in table.errors}
    errors = {what for what in told if not what.startswith("row rejected")}  # which no damage has done
    errors |= {found.what for found in facts.findings if found.state == "wrong"}
    counted = {(table.name, cell.date, cell.source, cell.rows) for table in facts.tables for cell in table.cells}
    return frozenset(counted), frozenset(errors)


def _ingest(root: Path, kind: Kind) -> Outcome:
    def take() -> Outcome:
        Writer(root, Fs()).take(20, NEW[kind.stream], stream=kind.stream)
        return Outcome(CORRECT)

    done = _caught(take)
    return done if done.word != CORRECT else _after(root, kind, NEW[kind.stream])


def _recover(root: Path, kind: Kind) -> Outcome:
    done = _called(root, "recover")
    return done if done.word != CORRECT else _after(root, kind)


def _merge(root: Path, kind: Kind) -> Outcome:
    done = _called(root, "merge", str(kind.table), "--date", OPEN, "--local", "--workers", "1")
    return done if done.word != CORRECT else _after(root, kind)


def _after(root: Path, kind: Kind, more: Sequence[Row] = ()) -> Outcome:
    """What a reader finds after a command that succeeded: it may have left alone a file that it did not need."""
    found = _read(root, more)
    if found.word != ERROR:
        return found
    return Outcome(WRONG if kind.state else ERROR_ON_READ, f"succeeded, then read: {found.said}")


def _check(root: Path, *words: str) -> Outcome:
    done = _called(root, "verify", *words)
    return Outcome(REMARK, done.said) if done.word == CORRECT and not done.said.endswith("0 remarks") else done


def _called(root: Path, *words: str) -> Outcome:
    def call() -> Outcome:
        done = run(root, *words)
        said = done.output.strip()
        if "unexpected error" in said:
            return Outcome(RAW, said)
        return Outcome(CORRECT if done.exit_code == 0 else ERROR, said)

    return _caught(call)


def _caught(call: Callable[[], Outcome]) -> Outcome:
    with permissions_hold():
        try:
            return call()
        except (SparkhavenError, OSError) as error:
            return Outcome(ERROR, str(as_ours(error)))
        except Exception as error:
            return Outcome(RAW, repr(error))
