"""The commands of a history."""
