"""Commands in a process of their own that is killed at a change of the disk, or whose disk is full from a call on.

``Apart`` starts one small server, which never has a thread. It forks for each command, so that a kill is a real one and
costs some milliseconds.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

CHANGES = (
    "step",
    "write_at",
    "write_new",
    "create",
    "copy_range",
    "truncate",
    "rename",
    "exchange",
    "link",
    "hard_link",
    "symlink",
    "_mkdir",
    "unlink",
    "rmdir",
    "remove_tree",
)
"""Calls of ``Fs`` before which a process may be killed."""
TAKERS = ("write_at", "write_new", "create", "copy_range", "link", "hard_link", "symlink", "_mkdir", "rename")
"""Calls of ``Fs`` that need space."""
KILLED = -signal.SIGKILL
TOLD = 4000  # most signs of what a command printed


@dataclass(frozen=True)
class Fault:
    """``kind``: ``kill`` before the change number ``number`` of a command, or ``full`` from the call of that number on
    that needs space; ``count`` only counts the changes.
    """

    kind: str
    number: int


@dataclass(frozen=True)
class Ended:
    """How a command ended: ``KILLED`` or its exit code, what it printed, and whether the fault was met."""

    code: int
    output: str
    met: bool


class Faulty:
    """Counts calls of this process, and lets one of them be the last, or fail."""

    def __init__(self, fault: Fault) -> None:
        self.fault, self.calls = fault, 0

    def watch(self) -> None:
        from sparkhaven.store.io.fs import Fs

        for name in CHANGES if self.fault.kind != "full" else TAKERS:
            setattr(Fs, name, self._counted(getattr(Fs, name)))

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **keywords: Any) -> Any:
            self.calls += 1
            if self.fault.kind == "kill" and self.calls == self.fault.number:
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault.kind == "full" and self.calls >= self.fault.number:
                path = next((str(a) for a in arguments if isinstance(a, Path)), None)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            return method(*arguments, **keywords)

        return counted


SAVE = "save_table"
"""With a file of rows, a name, a mode and the column of partitions: the function of that name, beside the commands."""


def run_here(root: Path, words: Sequence[str]) -> Ended:
    """Runs a command in this process."""
    from tests.support.commands import run

    if words[0] == SAVE:
        return _save(root, words[1:])
    result = run(root, *words)
    output = result.output[-TOLD:]
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        output += "".join(traceback.format_exception(result.exception))[-TOLD:]
    return Ended(result.exit_code, output, False)


def _save(root: Path, words: Sequence[str]) -> Ended:
    import pyarrow.parquet as pq

    from sparkhaven import save_table
    from sparkhaven.errors import SparkhavenError

    file, name, mode, by = words
    try:
        save_table(root, name, pq.read_table(file), mode=cast(Any, mode), partition_by=by or None)
    except SparkhavenError as error:
        return Ended(error.exit_code, str(error), False)
    return Ended(0, "", False)


class Apart:
    """The server; ``close`` ends it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.histories.apart"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, root: Path, words: Sequence[str], fault: Fault | None = None, *, small: bool = False) -> Ended:
        """Runs a command, with a fault if one is given."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {
            "root": str(root),
            "words": [*words],
            "fault": asdict(fault) if fault else None,
            "small": small,
            "logs": os.environ.get("SPARKHAVEN_LOGS", "on"),
        }
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        return Ended(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate()


def serve() -> None:
    """Answers each line, a command, with how it ended."""
    from sparkhaven.jobs.cli.main import COMMANDS, OnUse

    modules = OnUse()
    for name in COMMANDS:
        _ = modules[name]
    for line in sys.stdin:
        print(json.dumps(asdict(_in_child(json.loads(line)))), flush=True)


def _in_child(asked: dict[str, Any]) -> Ended:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            os.write(writer, json.dumps(_work(asked)).encode())
            code = 0
        except BaseException:  # a child must never return into the code of its parent
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        return Ended(status, "", status == KILLED)
    return Ended(**json.loads(said))


def _work(asked: dict[str, Any]) -> dict[str, Any]:
    from tests.crash.histories.sizes import cut_small

    os.environ["SPARKHAVEN_LOGS"] = asked["logs"]
    cut_small(asked["small"])
    faulty = Faulty(Fault(**asked["fault"]) if asked["fault"] else Fault("count", 0))
    faulty.watch()
    ended = run_here(Path(asked["root"]), asked["words"])
    met = faulty.fault.kind == "full" and faulty.calls >= faulty.fault.number
    return asdict(replace(ended, met=met))


if __name__ == "__main__":
    serve()
