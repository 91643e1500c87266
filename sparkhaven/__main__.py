"""``python -m sparkhaven``: the command line, where the console script is not on the path."""

from sparkhaven.jobs.cli.main import main

if __name__ == "__main__":
    main()
