"""Spark's Python processes in tests, and commands of ours, as forks of one server that has imported what they import.

A daemon of workers imports PySpark, Arrow and our packages anew: a second of CPU, and a runner of a stream two.
``forked_python.sh`` is the Python that Spark starts, ``forked_sparkhaven.sh`` the command. ``forked_client.py`` hands
its files to this server.
"""

from __future__ import annotations

import array
import atexit
import fcntl
import gc
import importlib
import os
import pkgutil
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from tests.support.spark.forked_client import END, ITEM, PART

FORKS = "SPARKHAVEN_FORKS"  # the server's socket
PYTHON = Path(__file__).with_name("forked_python.sh")
PROGRAM = Path(__file__).with_name("forked_sparkhaven.sh")
_IMPORTED = (
    "pandas",
    "pyarrow.compute",
    "pyarrow.parquet",
    "pyspark.worker",
    "pyspark.sql.streaming.datasource",
    "sparkhaven.jobs.cli.main",
    "sparkhaven.jobs.dataframes.source",
    "sparkhaven.jobs.dataframes.source_writers",
    "sparkhaven.readers.spark.batch",
    "sparkhaven.readers.spark.stream",
    "tests.support.spark.feed_source",
)
_HASHING = {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "YES"}  # as Spark starts its Python
_TOLD = 1 << 16


def start_server() -> None:
    """Starts the server of this process and its children, unless there is one; it ends with this process."""
    if FORKS in os.environ:
        return
    os.environ["SPARKHAVEN_PYTHON"] = sys.executable
    folder = tempfile.TemporaryDirectory(prefix="forks-")
    path = f"{folder.name}/socket"
    command = [sys.executable, "-m", "tests.support.spark.forked_python", path]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | _HASHING)
    if server.stdout is None or server.stdout.readline() != b"ready\n":
        raise RuntimeError(f"the server of Spark's Python in tests has not started: {' '.join(command)}")
    os.environ[FORKS] = path

    def end() -> None:
        server.terminate()
        server.wait()
        folder.cleanup()

    atexit.register(end)


def forked_program() -> str:
    """What a shell runs as ``sparkhaven``, as a fork of the server, whatever its environment is."""
    start_server()
    given = (f"{name}={shlex.quote(os.environ[name])}" for name in ("SPARKHAVEN_PYTHON", FORKS))
    return " ".join(["env", *given, shlex.quote(str(PROGRAM))])


def serve(path: str) -> None:
    """Forks a process for each client, until its own standard input ends."""
    _import_all()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the forks
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        _end_with(sys.stdin.fileno())
        print("ready", flush=True)
        while True:
            client, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _become(client)
            client.close()


def _import_all() -> None:
    from pyspark.sql import worker

    workers = (f"{worker.__name__}.{module.name}" for module in pkgutil.iter_modules(worker.__path__))
    for name in (*_IMPORTED, *workers):
        importlib.import_module(name)
    gc.freeze()


def _become(client: socket.socket) -> None:
    """Runs a client's module with its files, folder and environment, and tells the client how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code = 1
    try:
        argv = _take_over(client)
        _end_with(client.fileno())
        _tell_exits(client)
        sys.argv = argv[1:]
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 255)


def _tell_exits(client: socket.socket) -> None:
    """The client is told how this process ends, also where it calls ``os._exit`` as our commands do."""
    own, end = os.getpid(), os._exit

    def told(status: int) -> NoReturn:
        if os.getpid() == own:  # not of its forks
            with suppress(OSError):
                client.send(bytes([status & 255]))
        end(status)

    os._exit = told


def _take_over(client: socket.socket) -> list[str]:
    """The client's arguments; its files, folder and environment become those of this process."""
    room = socket.CMSG_SPACE(3 * array.array("i").itemsize)
    message, ancillary, *_ = client.recvmsg(_TOLD, room)
    files = array.array("i", ancillary[0][2])
    while not message.endswith(END):
        message += client.recv(_TOLD)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    folder, argv, environ = message.removesuffix(END).split(PART)
    os.chdir(folder)
    os.environb.clear()
    os.environb.update(dict(item.split(b"=", 1) for item in environ.split(ITEM)))  # type: ignore[arg-type]
    given = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    sys.path[:0] = [place for place in given if place not in sys.path]
    return [os.fsdecode(word) for word in argv.split(ITEM)]


def _end_with(file: int) -> None:
    """This process gets a SIGTERM when the other end of a socket or pipe is closed."""
    fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGTERM)
    fcntl.fcntl(file, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_ASYNC)


if __name__ == "__main__":
    serve(sys.argv[1])
