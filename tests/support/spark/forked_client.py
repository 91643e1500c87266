"""Asks the server in ``forked_python.py`` for a process, gives it its own files, and ends as that process ends.

It runs without site packages and imports one module, so that it starts in ten milliseconds.
"""

import _socket
import array
import os
import sys

ITEM, PART, END = b"\0", b"\0\0", b"\0\0\0"

if __name__ == "__main__":
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    server.connect(os.environ["SPARKHAVEN_FORKS"])
    environ = ITEM.join(key + b"=" + value for key, value in os.environb.items())
    argv = ITEM.join(os.fsencode(word) for word in sys.argv[1:])
    files = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
    folder = os.fsencode(os.getcwd())  # noqa: PTH109  the import of pathlib takes longer than all of this
    message = memoryview(PART.join([folder, argv, environ]) + END)
    sent = server.sendmsg([message], files)
    while sent < len(message):
        sent += server.send(message[sent:])
    for file in (0, 1, 2):
        os.close(file)  # the fork alone holds them: whoever waits for their end waits for the fork
    code = server.recv(1)
    os._exit(code[0] if code else 1)
