"""``python -I -S hand_on.py MODULE [WORD ...]``: the module, run by a fork of the server of ``warm_forks.py``."""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(os.environ["SPARKHAVEN_FORKS"])
    text = json.dumps({"words": sys.argv[1:], "environ": dict(os.environ), "cwd": os.path.realpath(".")}).encode()
    socket.send_fds(connection, [b"%8d" % len(text)], [0, 1, 2])
    connection.sendall(text)
    code = connection.recv(1)
sys.exit(code[0] if code else 1)
