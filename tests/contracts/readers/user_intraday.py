"""The contract of a reader for intraday data of user tables: each row once, and none without the setting."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import pytest

from sparkhaven import save_table
from sparkhaven.store.layout import USER_INTRADAY
from tests.support.tables.user_intraday import BOTH, LIVE, UserIntraday, rows

WHOLE = [1, 2, 3, 7, 8, 9]


def append_rows(root: Path) -> UserIntraday:
    """A date that is saved and intraday, and one that is intraday alone, in two internal partitions."""
    user = UserIntraday(root)
    user.append("host", BOTH, 3, 4)
    user.append("host", LIVE, 7, 8)
    user.append("other", LIVE, 9)
    return user


class UserIntradayContract(ABC):
    """Clauses for every reader. ``program`` is a fixture of ``tests/conftest``."""

    @abstractmethod
    def numbers(self, root: Path) -> list[int]:
        """``N`` of all rows, sorted."""

    def test_dates_that_no_save_has_come_from_intraday(self, program: UserIntraday) -> None:
        assert self.numbers(program.root) == WHOLE

    def test_rows_that_are_appended(self, program: UserIntraday) -> None:
        assert self.numbers(program.root) == WHOLE
        program.append("host", LIVE, 10)
        program.append("host", "2026-01-04", 11)
        assert self.numbers(program.root) == [*WHOLE, 10, 11]

    def test_a_save_of_the_date_takes_its_place(self, program: UserIntraday) -> None:
        save_table(program.root, "me.T", rows(LIVE, 7, 70), mode="append", partition_by="Day")
        assert self.numbers(program.root) == [1, 2, 3, 7, 70]

    def test_without_the_setting_saved_rows_alone(self, program: UserIntraday, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(USER_INTRADAY)
        assert self.numbers(program.root) == [1, 2, 3]
