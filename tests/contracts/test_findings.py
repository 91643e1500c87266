"""The catalogue of findings is whole: each code has a state that is made here or named, and what each command says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sparkhaven.readers.checks.catalogue import CATALOGUE, PARTS, SEVERITIES
from tests.support.findings.states import STATES, State, codes_of
from tests.support.places import REPOSITORY

pytestmark = pytest.mark.filterwarnings("ignore::sparkhaven.store.errors.HistoryWarning")


UNIT = "tests/unit/"
ELSEWHERE = {  # codes of states that take more to make, and the test that makes them
    "N209": UNIT + "readers/checks/test_verify.py",
    "N212": UNIT + "store/format/test_rejected_files.py",
    "N213": UNIT + "store/format/test_rejected_files.py",
    "N215": UNIT + "readers/inspect/test_inspect_coded.py",
    "N225": UNIT + "readers/checks/test_verify_meanwhile.py",
    "E235": UNIT + "writers/removal/test_volumes_away.py",
    "E243": "tests/contracts/test_planted_damage.py",
    "E244": "tests/contracts/test_planted_damage.py",
    "N245": UNIT + "store/format/test_rejected_files.py",
    "E251": "tests/contracts/test_planted_damage.py",
    "E264": UNIT + "jobs/cli/history/test_metadata_locations.py",
    "W291": UNIT + "readers/checks/test_verify_meanwhile.py",
    "W305": UNIT + "store/epochs/recovery/test_rebuild.py",
    "W306": UNIT + "store/epochs/recovery/test_older_logs.py",
    "W307": UNIT + "writers/quarantine/test_pending_changes.py",
    "W325": UNIT + "readers/checks/test_extended_tree.py",
    "E331": UNIT + "readers/checks/test_user_tables.py",
    "W332": UNIT + "readers/checks/test_user_tables.py",
    "W333": "tests/contracts/readers/test_user_intraday.py",
    "W334": "tests/contracts/readers/test_user_intraday.py",
}


def test_every_code_of_the_catalogue_has_a_state() -> None:
    made = {state.code for state in STATES}
    assert made.isdisjoint(ELSEWHERE) and len(made) == len(STATES)
    assert made | ELSEWHERE.keys() | PARTS["Machine, settings, next steps"].keys() == CATALOGUE.keys()
    for code, path in ELSEWHERE.items():
        assert f'"{code}"' in (REPOSITORY / path).read_text(encoding="utf-8"), f"{path} does not see {code}"


def test_every_code_that_is_given_stands_in_the_catalogue() -> None:
    areas = ("readers", "jobs/monitor", "jobs/cli")
    texts = [path.read_text(encoding="utf-8") for area in areas for path in (REPOSITORY / area).rglob("*.py")]
    given = {code for text in texts for code in re.findall(r'"([EWN][2-9][0-9][0-9])"', text)}
    assert given == CATALOGUE.keys()


def test_each_entry_says_what_it_means() -> None:
    for code, entry in CATALOGUE.items():
        assert code[0] in SEVERITIES and entry.what and entry.means.endswith("."), code
        assert not entry.todo.endswith("."), code


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bases")


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.code)
def test_a_state_has_its_code_at_each_command(shared: Path, tmp_path: Path, state: State) -> None:
    said = {name: (codes, code) for name, codes, code in codes_of(state.case(shared, tmp_path))}
    shown = [name for name, (codes, _) in said.items() if state.code in codes]
    print(state.code, " ".join(shown), {name: sorted(codes) for name, (codes, _) in said.items()})
    assert " ".join(shown) == state.shown
    errors = {name: {code for code in codes if code[0] == "E"} for name, (codes, _) in said.items()}
    if errors["verify"]:
        assert said["deep"][1] == said["doctor"][1] == 1, "no command calls sound what another calls an error"
    if any(errors[name] for name in ("scrub", "inspect", "metadata")):
        assert said["deep"][1] == 1, "no command calls sound what another calls an error"
    assert not errors["scrub"] or said["scrub"][1] == 1
