"""All that a history can do, and how often, by weight: commands, and steps that are more than one command."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.crash.histories.apart import Fault
from tests.crash.histories.model import Model
from tests.crash.histories.operations import (
    beside,
    copies,
    corrections,
    dates,
    files,
    merges,
    restores,
    schemas,
    streams,
    users,
)
from tests.crash.histories.operations.base import Action, Draw
from tests.crash.histories.operations.copies import plain
from tests.crash.histories.operations.dates import on_all_dates, on_date

if TYPE_CHECKING:
    from tests.crash.histories.history import History

COMMANDS: dict[str, tuple[float, Draw]] = {
    "ingest": (6, streams.ingest),
    "rollback": (2, streams.rollback),
    "undo": (2, streams.undo),
    "streams remove": (1.5, streams.remove_stream),
    "quarantine drop": (0.3, streams.drop_quarantine),
    "merge": (7, merges.merge),
    "merge sorted": (0.7, merges.merge_sorted),
    "merge all": (1, merges.merge_all),
    "import": (1, merges.bring),
    "correct": (1.5, corrections.correct),
    "swap": (2.5, corrections.swap),
    "exchange": (1, corrections.exchange),
    "delete-rows": (4, corrections.delete_rows),
    "validate": (0.7, on_date("validate", ("validate",), dates.validated)),
    "truncate": (3, dates.truncate),
    "truncate all": (0.7, on_all_dates("truncate", ("truncate",), Model.truncate_whole)),
    "delete": (3, dates.delete),
    "delete all": (0.7, on_all_dates("delete", ("delete", "--grace", "0"), Model.delete)),
    "dates drop": (1, on_date("dates drop", ("dates", "drop"), Model.drop)),
    "dates expire": (1, dates.expire),
    "dates move": (2, dates.move),
    "dates detach": (2, dates.detach),
    "dates attach": (2, dates.attach),
    "dates adopt": (0.3, dates.adopt),
    "schema deploy": (1.5, schemas.deploy),
    "snapshot": (2, copies.snapshot),
    "mirror": (2, copies.mirror),
    "export": (1, copies.export),
    "partitions add": (0.3, copies.add_partition),
    "partitions roll": (0.3, copies.roll),
    "recover": (0.7, plain("recover")),
    "clean": (0.7, plain("clean")),
    "metadata update": (0.4, plain("metadata", "update")),
    "save_table": (1, users.save),
}
INTO_A_COPY = [draw for name, (_, draw) in COMMANDS.items() if name not in ("snapshot", "mirror", "ingest")]
MEETS_FILES = [COMMANDS[name][1] for name in ("merge", "truncate", "dates move", "correct", "delete-rows", "import")]
"""Commands that often meet what a file operation has left."""


def _file_operation(history: History, rng: random.Random, fault: Fault | None) -> None:
    files.file_operation(history, rng, fault, MEETS_FILES)


def _write_into_copy(history: History, rng: random.Random, fault: Fault | None) -> None:
    restores.write_into_copy(history, rng, rng.choice(INTO_A_COPY))


STEPS: dict[str, tuple[float, Draw | Action]] = {
    **COMMANDS,
    "pin": (3, Action(beside.pin)),
    "restore": (1.5, Action(restores.restore)),
    "restore over": (1, Action(restores.restore_over)),
    "write into a copy": (1.5, Action(_write_into_copy)),
    "keep logs": (0.7, Action(beside.keep_logs)),
    "stale logs": (0.7, Action(beside.stale_logs)),
    "another rule": (0.8, Action(beside.another_rule)),
    "file operation": (2, Action(_file_operation)),
}
