#!/bin/sh
# The program `sparkhaven` for tests that call it many times: a fork of the server in forked_python.py.
exec "$SPARKHAVEN_PYTHON" -IS "${0%/*}/forked_client.py" -m sparkhaven "$@"
