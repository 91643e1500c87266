"""The merge under spark-submit.

`spark-submit --py-files sparkhaven.zip jobs/merge_dates.py --root DIR NS.T --date D`
"""

from jobs.submitted import submit

if __name__ == "__main__":
    submit("merge")
