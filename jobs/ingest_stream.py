"""Streams under spark-submit: `spark-submit --py-files sparkhaven.zip jobs/ingest_stream.py --root DIR FILE.toml`."""

import sys

try:
    from sparkhaven.jobs.submit import submit
except ModuleNotFoundError as error:
    sys.exit(f"error: {error}. Submit the job with `--py-files sparkhaven.zip` (`make zip` builds it)")

if __name__ == "__main__":
    submit("ingest")
