"""Processes of Spark's Python, each a fork of one that has imported what they need.

Spark starts a process for each source of a streaming query, and in each session some daemons, each for a kind of
workers. Each would import PySpark, Arrow and our packages anew: a second of CPU.
``warm_python.sh`` runs ``hand_on.py`` instead, which hands the words, the environment and the files of the process to
the server here.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path

from tests.support.spark.warm_daemon import SPARKS

ADDRESS = "SPARKHAVEN_FORKS"  # the variable with the path of the server's socket
IMPORTED = (
    *SPARKS,
    "pyspark.sql.streaming.python_streaming_source_runner",
    "encodings.idna",
    "sparkhaven.jobs.dataframes.source",
    "sparkhaven.jobs.dataframes.source_writers",
    "sparkhaven.readers.spark.batch",
    "sparkhaven.readers.spark.stream",
    "sparkhaven.ingest.feeds.files.source",
    "tests.support.spark.feed_source",
    "tests.support.streams.stream_kit",
)
FAULT = 1


def start_forks() -> None:
    """A server for this process and its children, until this process ends; a second call does nothing."""
    if ADDRESS in os.environ:
        return
    directory = Path(tempfile.mkdtemp(prefix="forks-"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "socket"))
        listener.listen(64)
        repository = str(Path(__file__).resolve().parents[3])
        server = subprocess.Popen(
            [sys.executable, "-m", __name__, str(listener.fileno()), str(directory)],
            env={**os.environ, "PYTHONPATH": repository},
            cwd=repository,
            pass_fds=[listener.fileno()],
            stdin=subprocess.PIPE,
            start_new_session=True,  # a signal to this process group must not reach it
        )
    os.environ[ADDRESS] = str(directory / "socket")
    atexit.register(server.communicate)


def serve(listener: socket.socket) -> None:
    """Makes a process of each that is handed on, until standard input is closed."""
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            os._exit(run(connection))
        connection.close()


def run(connection: socket.socket) -> int:
    """Runs a module as the process that is at the other end of ``connection``; its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, files, _, _ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb") as received:
        handed = json.loads(received.read(int(length)))
    for standard, file in enumerate(files):
        os.dup2(file, standard)
        os.close(file)
    os.environ.clear()
    os.environ.update(handed["environ"])
    os.chdir(handed["cwd"])
    sys.path[0] = handed["cwd"]
    sys.argv = handed["words"]
    os.register_at_fork(after_in_child=connection.close)
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    code = 0
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code & 0xFF if isinstance(ended.code, int) else FAULT if ended.code else 0
    except BaseException:
        traceback.print_exc()
        code = FAULT
    sys.stdout.flush()
    sys.stderr.flush()
    connection.send(bytes([code]))
    return code


def _end_with(connection: socket.socket) -> None:
    if not connection.recv(1):
        signal.raise_signal(signal.SIGTERM)  # a daemon ends its workers


if __name__ == "__main__":
    try:
        serve(socket.socket(fileno=int(sys.argv[1])))
    finally:
        shutil.rmtree(sys.argv[2])
