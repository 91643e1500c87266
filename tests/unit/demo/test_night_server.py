"""What ``make airflow`` says of the parts of a running Airflow."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from demo.night_server import free_port, stopped


class Health(BaseHTTPRequestHandler):
    """A scheduler that has ended."""

    def do_GET(self) -> None:
        parts = {"metadatabase": "healthy", "scheduler": "unhealthy", "triggerer": None, "dag_processor": "healthy"}
        body = json.dumps({name: {"status": status} for name, status in parts.items()}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Nothing on the terminal."""


def test_a_part_without_a_heartbeat_is_named() -> None:
    with HTTPServer(("127.0.0.1", 0), Health) as server:
        answering = threading.Thread(target=server.handle_request)
        answering.start()
        assert stopped(f"http://127.0.0.1:{server.server_port}/") == {"scheduler"}
        answering.join()


def test_a_server_that_does_not_answer_is_named() -> None:
    assert stopped(f"http://127.0.0.1:{free_port(0)}/") == {"server"}
