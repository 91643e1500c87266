"""Streams under spark-submit: `spark-submit --py-files sparkhaven.zip jobs/ingest_stream.py --root DIR FILE.toml`."""

from jobs.submitted import submit

if __name__ == "__main__":
    submit("ingest")
