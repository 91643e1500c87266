"""Tables as Spark data frames: a Python data source over Arrow batches, for batch queries and as a stream of epochs."""
