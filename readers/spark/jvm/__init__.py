"""Plans of queries that the JVM reads by itself: the file of a plan, and which of the two sources reads a table."""
