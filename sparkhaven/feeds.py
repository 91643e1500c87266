"""For feeds of your own: what a class that a stream file names by ``type = "package.module:Class"`` is made of.

A feed subclasses ``PlannedFeed``. Its ``settings`` are a ``SettingsModel`` with the keys of ``[feed]``. Its options are
a frozen value with ``Traits``. ``source`` gives Spark a plan of ranges, and ``decode`` turns a range into rows, typed
and routed. A row that cannot be read goes to ``Rejects``, alone. Such a class passes the suite
``sparkhaven.testing.PlannedFeedContract``.

* ``PlannedFeed``, ``Source``, ``Waiting``, ``Block``, ``RequeuedRows``, ``Clock``, ``PATIENCE_S``: the interface
* ``FeedStream``, ``stream_source``, ``RangeReader``, ``RangeRun``, ``committed_ends``, ``InputPartition``,
  ``ReadLimit``: plans of ranges of offsets
* ``OffsetRange``, ``StreamState``, ``Traits``, ``Limit``: positions, and what is said of a feed
* ``SettingsModel``, ``MaxPerTrigger``, ``PathText``, ``beside``: keys of ``[feed]``
* ``JsonDecoder``, ``framed_block``, ``Router``, ``Target``, ``resolve_targets``, ``Rejects``, ``RejectedRow``: rows
* ``TableRows``, ``TableRoutes``, ``TableChoice``, ``counting``, ``lines_of``, ``routing_target``: several tables
* ``Fs``, ``TableName``, ``TableSchema``, ``SettingsError``: what all of it speaks of
"""

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import framed_block
from sparkhaven.ingest.feeds.base import PATIENCE_S, Block, Clock, PlannedFeed, RequeuedRows, Source, Waiting
from sparkhaven.ingest.feeds.spark_planning import FeedStream, RangeReader, RangeRun, committed_ends, stream_source
from sparkhaven.ingest.formats.json.json_rows import JsonDecoder
from sparkhaven.ingest.router import Router, TableChoice, TableRows, counting, lines_of, routing_target
from sparkhaven.ingest.settings import MaxPerTrigger, PathText, SettingsModel, beside
from sparkhaven.ingest.spec import Limit, TableRoutes, Target, Traits
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.readers.spark.source_api import InputPartition, ReadLimit
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName
from sparkhaven.store.quarantine.rejected_rows import RejectedRow
from sparkhaven.store.types.model import TableSchema

__all__ = [
    "PATIENCE_S",
    "Block",
    "Clock",
    "FeedStream",
    "Fs",
    "InputPartition",
    "JsonDecoder",
    "Limit",
    "MaxPerTrigger",
    "OffsetRange",
    "PathText",
    "PlannedFeed",
    "RangeReader",
    "RangeRun",
    "ReadLimit",
    "RejectedRow",
    "Rejects",
    "RequeuedRows",
    "Router",
    "SettingsError",
    "SettingsModel",
    "Source",
    "StreamState",
    "TableChoice",
    "TableName",
    "TableRoutes",
    "TableRows",
    "TableSchema",
    "Target",
    "Traits",
    "Waiting",
    "beside",
    "committed_ends",
    "counting",
    "framed_block",
    "lines_of",
    "resolve_targets",
    "routing_target",
    "stream_source",
]
