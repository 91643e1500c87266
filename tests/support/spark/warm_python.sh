#!/bin/sh
# Spark's Python for tests. Its daemons, and the processes of its streaming sources, are forks of the server of
# warm_forks.py, where one runs; else daemons are those of warm_daemon.py. $SPARKHAVEN_PYTHON is what else runs.
# The zip of PySpark on the path has no bytecode; the same PySpark is installed.
export PYTHONPATH="${PYTHONPATH#*/pyspark.zip:*/py4j-*.zip:*/spark-core_*.jar:}"
case "$SPARKHAVEN_FORKS $1 $2" in
  /*" -m pyspark.daemon" | /*" -m pyspark.sql.streaming.python_streaming_source_runner")
    shift
    exec "$SPARKHAVEN_PYTHON" -I -S "${0%/*}/hand_on.py" "$@" ;;
  " -m pyspark.daemon")
    shift 2
    exec "$SPARKHAVEN_PYTHON" "${0%/*}/warm_daemon.py" "$@" ;;
esac
exec "$SPARKHAVEN_PYTHON" "$@"
