"""All of Airflow on loopback until Ctrl-C: ``make airflow``."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from sparkhaven.store.errors import EXIT_BAD_DATA, SettingsError
from tests.support.servers.watchdog import Watchdog

START_SECONDS = 300.0
STOP_SECONDS = 15.0
LOOK_SECONDS = 15.0
HEALTH = "/api/v2/monitor/health"


def serve(python: Path, environ: Mapping[str, str], *, log: Path, user: str, port: int, hint: str) -> int:
    """Runs Airflow until Ctrl-C; prints where it is, how to log in, and ``hint``. Exit code 1 if it ends by itself."""
    password = secrets.token_urlsafe(9)
    passwords = Path(environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
    passwords.touch(mode=0o600)
    passwords.write_text(json.dumps({user: password}), encoding="utf-8")
    address = f"http://127.0.0.1:{port}"
    with log.open("a") as opened:
        running = subprocess.Popen(
            [str(python), "-m", "airflow", "standalone"],
            env=dict(environ),
            stdout=opened,
            stderr=opened,
            start_new_session=True,
        )
        watchdog = Watchdog(running.pid)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            if answers(running, address + HEALTH):
                print(f"Airflow: {address}, user {user}, password {password}, log in {log}")
                print(hint)
                print("Ctrl-C, or SIGTERM to this process, stops it", flush=True)
                wait(running, address + HEALTH, log)
            print(f"Airflow has ended: read {log}", file=sys.stderr)
            return EXIT_BAD_DATA
        except KeyboardInterrupt:
            print("stopping Airflow", flush=True)
            return 0
        finally:
            stop(running)
            watchdog.close()


def wait(running: subprocess.Popen[bytes], health: str, log: Path) -> None:
    """Waits until Airflow ends; names each part that has stopped, since ``airflow standalone`` goes on without it."""
    reported: set[str] = set()
    while running.poll() is None:
        try:
            running.wait(LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            silent = stopped(health)
            for part in sorted(silent - reported):
                print(f"Airflow's {part} gives no sign of life: read {log}. Start again if it stays so", flush=True)
            reported = silent


def stopped(health: str) -> set[str]:
    """The parts of Airflow that have shown no heartbeat for a while, by its own account."""
    try:
        with urllib.request.urlopen(health, timeout=5.0) as answer:  # noqa: S310  it is on loopback
            parts = json.load(answer)
    except OSError:
        return {"server"}
    return {name.replace("_", " ") for name, component in parts.items() if component.get("status") == "unhealthy"}


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends Airflow, its tasks too if they take long: a task that is cut off here runs again in the next night."""
    process.send_signal(signal.SIGINT)
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, number)
    process.wait()


def answers(process: subprocess.Popen[bytes], address: str) -> bool:
    """Waits until a server answers; False if its process ends first, or takes too long."""
    end = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            with urllib.request.urlopen(address, timeout=5.0):  # noqa: S310  it is on loopback
                return True
        except OSError:
            time.sleep(0.5)
    return False


def free_port(port: int) -> int:
    """The port, or any free one for 0. SettingsError if another process listens on it."""
    with socket.socket() as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind(("127.0.0.1", port))
        except OSError as error:
            raise SettingsError(
                "the port is not free", where=f"127.0.0.1:{port}", found=error, hint="stop what uses it, or --port N"
            ) from None
        number: int = opened.getsockname()[1]
        return number
