"""Every error class of sparkhaven. ``SparkhavenError`` is the base, and each has its exit code.

An error has ``what``, ``where``, ``expected``, ``found`` and ``hint`` as attributes, and survives pickling.
``from_spark`` finds it in an exception of Spark.
"""

from sparkhaven.store.errors import (
    CommitError,
    CommitUnknownError,
    CoreNotUsableError,
    CorruptFileError,
    EpochConflictError,
    ErrorBudgetExceeded,
    FeedError,
    FeedSettingsError,
    FormatError,
    HistoryWarning,
    InvalidNameError,
    LockLostError,
    MergeError,
    NotPermittedError,
    OtherColumnError,
    PositionGapError,
    RetryableFeedError,
    RetryableStorageError,
    SchemaChangeError,
    SchemaError,
    SchemaMismatchError,
    SchemaParseError,
    SettingsError,
    SnapshotMovedError,
    SparkhavenError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    TooEarlyError,
    UnsupportedVersionError,
    ValidationFailedError,
    parse_error,
)

__all__ = [
    "CommitError",
    "CommitUnknownError",
    "CoreNotUsableError",
    "CorruptFileError",
    "EpochConflictError",
    "ErrorBudgetExceeded",
    "FeedError",
    "FeedSettingsError",
    "FormatError",
    "HistoryWarning",
    "InvalidNameError",
    "LockLostError",
    "MergeError",
    "NotPermittedError",
    "OtherColumnError",
    "PositionGapError",
    "RetryableFeedError",
    "RetryableStorageError",
    "SchemaChangeError",
    "SchemaError",
    "SchemaMismatchError",
    "SchemaParseError",
    "SettingsError",
    "SnapshotMovedError",
    "SparkhavenError",
    "StorageError",
    "TableExistsError",
    "TableNotFoundError",
    "TooEarlyError",
    "UnsupportedVersionError",
    "ValidationFailedError",
    "from_spark",
]


def from_spark(error: BaseException) -> SparkhavenError | None:
    """The error of sparkhaven that an exception of Spark stands for, with its class and parts, else None.

    Spark passes errors of its Python processes on as texts, in an AnalysisException, PythonException,
    StreamingQueryException or Py4JJavaError. The parts are texts: ``epoch`` is ``"7"``. An error of sparkhaven is
    returned as it is.
    """
    cause: BaseException | None = error
    while cause is not None:
        ours = cause if isinstance(cause, SparkhavenError) else parse_error(str(cause))
        if ours is not None:
            return ours
        cause = cause.__cause__ or cause.__context__
    return None
