"""Benchmarks of one part each: decoding, a commit, a checked read, a restart."""
