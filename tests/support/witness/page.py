"""``docs/evidence/damage.md``: what each command does when a file is damaged, and what `verify --deep` says of bytes.

``python -m tests.support.witness.page [KIND...]`` damages the files of those kinds (default: all), runs every command
on each, prints what may not be, and writes the page anew when all kinds were asked for.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from sparkhaven.readers.checks.findings import Finding
from tests.support.places import REPOSITORY
from tests.support.witness import detached as detached_dates
from tests.support.witness.commands import COMMANDS, RAW, WRONG, Outcome, outcomes
from tests.support.witness.damage import DAMAGES, KINDS, Kind, Trees
from tests.support.witness.planted import sites
from tests.support.witness.planted_kinds import KINDS as KINDS_OF_BYTES
from tests.support.witness.planted_kinds import Planted
from tests.support.witness.trees import make_trees

PAGE = REPOSITORY / "docs" / "evidence" / "damage.md"
MEMORY = Path("/dev/shm")
Cells = Mapping[tuple[str, str], Mapping[str, Outcome] | None]
INTRO = """# What damage to each file does

Each file of a table is checked against its *witness*: another file that shows its loss or a change of its content. Each
line below is one file of a small database (two streams, and one that was removed; one date that is merged and
truncated, one that is merged, one that is open; two other tables with `ExtendedStorage`, and one that was dropped) with
one kind of damage, and the result of each command on it. `python -m tests.support.witness.page` does all of it and
writes this page; the tests do the same and compare.

* *correct*: the command succeeds, and every row is read as it was committed.
* *error*: it ends with an error that says what is wrong and what to do, and with a nonzero exit code; `verify` reports
  an error.
* Of `page`, which reads no column, *correct* means that it counts every row, *error* that it shows one.
* *error on read*: it succeeds because it does not need the damaged file; the next reader that needs the file ends with
  an error.
* *remark*: `verify` reports a remark, and finds nothing lost.
* *deep only*: `verify` does not check this; `verify --deep` reports it.
* *harmless*: nothing to report: the file is a cache, or what it lost was not committed.

*older copy* and *newer copy* are the same file from before and after the last epochs, *foreign copy* is a file of the
same kind that belongs elsewhere. Combinations that leave the file unchanged are not listed.
"""


PLANTED = """
## Damage that no checksum shows

The checksums of the records fit these files, as after a writer with an error. A location of twelve rows has every type
with a codec, a grouping column and a `DataIndex`. `verify --deep` names the file, the row or byte, and what is wrong.
The same damage is planted intraday, in history, and in history in Parquet, where it applies.
"""

DETACHED = """
## Damage to a detached date

A date was detached twice, the second time with rows that came late. Files of the second part are damaged, outside of
the tree. *correct* of `inspect`: the manifest is whole, and its files have their lengths. `dates attach` reads them: it
brings back all rows of both parts, or it is an error, and brings back those of the first part at most.
"""


def place() -> str | None:
    """A directory for trees that need not survive, in memory where there is one."""
    return str(MEMORY) if MEMORY.is_dir() else None


def damaged(trees: Trees, base: Path, kinds: Sequence[Kind]) -> Iterator[tuple[Kind, str, dict[str, Outcome] | None]]:
    """Every damage to a file of each kind, with what the commands did."""
    for kind in kinds:
        for damage in DAMAGES:
            yield kind, damage, outcomes(trees, base, kind, damage)


def line(kind: str, damage: str, found: Mapping[str, Outcome]) -> str:
    """One line of the table."""
    return f"| {kind} | {damage} | {' | '.join(found[name].word for name in COMMANDS)} |"


def planted_line(planted: Planted, found: Mapping[str, Finding]) -> str:
    """One line of the second table; what is said must be the same wherever it was planted."""
    (said,) = {(Path(each.path).name, each.at, each.what) for each in found.values()}
    name, at, what = said
    return f"| {planted.kind} | {planted.how} | {', '.join(found)} | `{name}`{f', {at}' if at else ''}: {what} |"


def planted_lines(base: Path) -> Iterator[str]:
    """The second table, each damage planted anew."""
    yield from ("| damage | planted | where | `verify --deep` says |", "|---|---|---|---|")
    places = {site.name: site for site in sites(base)}
    for planted in KINDS_OF_BYTES:
        found = {name: places[name].findings(planted.plant(places[name])) for name in planted.sites}
        yield planted_line(planted, {name: defects[0] for name, defects in found.items()})


def page(cells: Cells, planted: Iterable[str], detached: Iterable[str]) -> str:
    """The whole page."""
    head = [f"| file | damage | {' | '.join(f'`{name}`' for name in COMMANDS)} |", "|---" * (2 + len(COMMANDS)) + "|"]
    lines = [line(kind, damage, found) for (kind, damage), found in cells.items() if found is not None]
    return "\n".join([INTRO, *head, *lines, DETACHED, *detached, PLANTED, *planted, ""])


def wrong(kind: Kind, damage: str, found: Mapping[str, Outcome]) -> list[str]:
    """What of it may not be, in sentences."""
    bad = [(name, each) for name, each in found.items() if each.word in (WRONG, RAW)]
    return [f"{kind.name}, {damage}: {name} is {each.word}: {each.said}" for name, each in bad]


def check(trees: Trees, kind: Kind, damage: str) -> None:
    """Fails where a command is silently wrong, or where the page says something else."""
    found = outcomes(trees, trees.now.parents[1], kind, damage)
    said = [
        each for each in PAGE.read_text(encoding="utf-8").splitlines() if each.startswith(f"| {kind.name} | {damage} |")
    ]
    if found is None:
        assert said == []
        return
    assert not wrong(kind, damage, found), "\n".join(wrong(kind, damage, found))
    assert said == [line(kind.name, damage, found)], "`python -m tests.support.witness.page` writes the page anew"


def main(names: Sequence[str]) -> int:
    """Exit code 1 if a cell may not be as it is."""
    kinds = [kind for kind in KINDS if not names or any(name in kind.name for name in names)]
    cells: dict[tuple[str, str], dict[str, Outcome] | None] = {}
    faults = 0
    with tempfile.TemporaryDirectory(dir=place()) as base:
        trees = make_trees(Path(base) / "trees")
        for kind, damage, found in damaged(trees, Path(base), kinds):
            cells[kind.name, damage] = found
            if found is not None:
                print(line(kind.name, damage, found), flush=True)
                for sentence in wrong(kind, damage, found):
                    faults += 1
                    print("    " + sentence.replace("\n", "\n    "), flush=True)
    if not names:
        with tempfile.TemporaryDirectory(dir=place()) as base:
            text = page(cells, planted_lines(Path(base)), detached_dates.lines(Path(base) / "detached"))
            PAGE.write_text(text, encoding="utf-8")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
