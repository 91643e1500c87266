#!/bin/sh
# Spark's Python for tests: its daemons and runners are forks of the server in forked_python.py.
case "$2" in
pyspark.daemon | pyspark.sql.streaming.*) exec "$SPARKHAVEN_PYTHON" -IS "${0%/*}/forked_client.py" "$@" ;;
esac
exec "$SPARKHAVEN_PYTHON" "$@"
