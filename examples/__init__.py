"""Feeds that are no part of the project, to be copied: each is one module on ``sparkhaven.feeds``."""
