#!/bin/sh
# Spark's Python for tests: its daemons of workers are those of warm_daemon.py. $SPARKHAVEN_PYTHON is what else runs.
if [ "$1 $2" = "-m pyspark.daemon" ]; then
  shift 2
  exec "$SPARKHAVEN_PYTHON" -m tests.support.spark.warm_daemon "$@"
fi
exec "$SPARKHAVEN_PYTHON" "$@"
