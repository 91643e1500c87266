"""One table of conversions for every way in: source type × column type → exact, checked per value, by option, refused.

``sources``  the types that values come in, whatever writes them: Arrow, Parquet, Spark, Avro, Protobuf
``table``    what a column takes of each source type, and by which option
``plain``    Arrow arrays of any encoding as one of few: no views, dictionaries, run ends or extensions
``numbers``  whole arrays of numbers as those of a column, with a mask of the values that it does not hold exactly

A decoder names the source of a field once, asks ``table.rule`` once for each column, and converts by the kernels of
``numbers``, or value by value. No decoder has a table of its own.
"""
