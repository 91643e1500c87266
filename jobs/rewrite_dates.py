"""The rewrite of columns of history under spark-submit.

`spark-submit --py-files sparkhaven.zip jobs/rewrite_dates.py --root DIR NS.T --dates D --set "Price=Price * 10"`
"""

import sys

try:
    from sparkhaven.jobs.submit import submit
except ModuleNotFoundError as error:
    sys.exit(f"error: {error}. Submit the job with `--py-files sparkhaven.zip` (`make zip` builds it)")

if __name__ == "__main__":
    submit("rewrite-column")
