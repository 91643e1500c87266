"""Feeds in Avro, Protobuf, CSV, Parquet and Delta, each against the pipeline that a team writes with Spark."""
