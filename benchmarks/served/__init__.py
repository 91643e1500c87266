"""Processes beside ``benchmarks.live``: the engine, and the writer that it follows."""
