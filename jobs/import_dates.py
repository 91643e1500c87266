"""The import under spark-submit.

`spark-submit --py-files sparkhaven.zip jobs/import_dates.py --root DIR NS.T --from TREE`
"""

import sys

try:
    from sparkhaven.jobs.submit import submit
except ModuleNotFoundError as error:
    sys.exit(f"error: {error}. Submit the job with `--py-files sparkhaven.zip` (`make zip` builds it)")

if __name__ == "__main__":
    submit("import")
