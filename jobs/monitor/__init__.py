"""Facts about tables and streams: each module here collects one of them once, as values.

What shows them stands below: ``page/``, ``doctor/``, ``metrics/`` and ``logs/``, and the commands.
"""
