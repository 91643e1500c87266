"""Commands that are killed before a change of the disk or at a named step, as by SIGKILL, in a process of their own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from sparkhaven.store.io.fs import Fs
from tests.crash.kills.kill_steps import in_child

CHANGES = (
    "write_at",
    "write_new",
    "create",
    "truncate",
    "rename",
    "link",
    "symlink",
    "_mkdir",
    "unlink",
    "rmdir",
    "remove_tree",
)


def killed_at(number: int, work: Callable[[], None]) -> bool:
    """Runs ``work`` in a child that dies before its change ``number`` (from 1); whether it did, else it has ended well.

    Named steps count as changes, so that a kill falls before and after each of them too.
    """

    def alone() -> None:
        count = 0

        def counted(call: Callable[..., Any]) -> Callable[..., Any]:
            def counting(*args: Any, **options: Any) -> Any:
                nonlocal count
                count += 1
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*args, **options)

            return counting

        for name in CHANGES:
            setattr(Fs, name, counted(getattr(Fs, name)))
        work()

    code = in_child(alone)
    assert code in (0, -signal.SIGKILL), f"the command ended with {code}"
    return code == -signal.SIGKILL


def killed_at_step(step: str, work: Callable[[], None]) -> bool:
    """Runs ``work`` in a child that dies at a named step, like ``schema-file:before``; whether it met it."""

    def alone() -> None:
        def die(fs: Fs, name: str) -> None:
            if name == step:
                os.kill(os.getpid(), signal.SIGKILL)

        Fs.step = die  # type: ignore[assignment, method-assign]
        work()

    code = in_child(alone)
    assert code in (0, -signal.SIGKILL), f"the command ended with {code}"
    return code == -signal.SIGKILL
