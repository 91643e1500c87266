"""The metrics by name, kind and labels: what dashboards and alerts outside this project rely on."""

from __future__ import annotations

import re

from sparkhaven.jobs.monitor.metrics.catalogue import CATALOGUE, OF_LOGS, OF_TABLES

METRICS = [
    ("rows_total", "counter", "table stream"),
    ("bytes_total", "counter", "table stream"),
    ("batches_total", "counter", "table stream"),
    ("replay_noop_total", "counter", "table stream"),
    ("offset_gap_total", "counter", "table stream"),
    ("quarantine_total", "counter", "table stream reason"),
    ("unknown_fields_total", "counter", "table stream"),
    ("absent_fields_total", "counter", "table stream"),
    ("late_rows_total", "counter", "table stream reason"),
    ("out_of_bounds_total", "counter", "table stream reason"),
    ("decoder_errors_total", "counter", "table stream"),
    ("recovery_bytes_cut", "gauge", "table stream"),
    ("recovery_seconds", "gauge", "table stream"),
    ("epoch_current", "gauge", "table stream"),
    ("epoch_floor", "gauge", "table stream"),
    ("epoch_age_seconds", "gauge", "table stream"),
    ("source_position", "gauge", "table stream source"),
    ("source_end", "gauge", "table stream source"),
    ("source_end_age_seconds", "gauge", "table stream"),
    ("source_reachable", "gauge", "table stream"),
    ("source_records_total", "counter", "table stream source"),
    ("source_lag_records", "gauge", "table stream source"),
    ("source_lag_seconds", "gauge", "table stream source"),
    ("source_lag_files", "gauge", "table stream"),
    ("commit_seconds", "histogram", "table stream mode"),
    ("fsync_seconds", "histogram", "table stream mode"),
    ("sync_batch_bytes", "histogram", "table stream mode"),
    ("batch_seconds", "histogram", "table stream"),
    ("stream_up", "gauge", "table stream"),
    ("restarts_total", "counter", "table stream"),
    ("failures_total", "counter", "table stream error"),
    ("replay_mismatch_total", "counter", "table stream"),
    ("lease_lost_total", "counter", "table stream"),
    ("checksum_errors_total", "counter", "table stream"),
    ("loss_window_seconds", "gauge", "table stream mode"),
    ("open_dates", "gauge", "table stream"),
    ("merge_seconds", "gauge", "table date"),
    ("merge_end_seconds", "gauge", "table"),
    ("merge_rows", "gauge", "table date"),
    ("merge_bytes", "gauge", "table"),
    ("merge_dates", "gauge", "table result"),
    ("merge_phase", "gauge", "table date phase"),
    ("write_amplification", "gauge", "table date"),
    ("symbol_ids", "gauge", "table column"),
    ("symbol_duplicates", "gauge", "table column"),
    ("symbol_hit_ratio", "gauge", "table column"),
    ("disk_bytes", "gauge", "table volume"),
    ("waste_bytes", "gauge", "table volume"),
    ("disk_free_bytes", "gauge", "table volume"),
    ("stream_failed_seconds", "gauge", "table stream error"),
    ("open_files", "gauge", "table"),
    ("pins", "gauge", "table"),
    ("oldest_pin_seconds", "gauge", "table"),
    ("table_figures_age_seconds", "gauge", "table"),
    ("log_failures_total", "counter", "table"),
    ("log_rows_lost_total", "counter", "table"),
]
WANTED = """
rows_total bytes_total batches_total source_lag_records source_lag_seconds epoch_current epoch_floor epoch_age_seconds
commit_seconds fsync_seconds sync_batch_bytes loss_window_seconds replay_noop_total replay_mismatch_total
offset_gap_total recovery_bytes_cut recovery_seconds open_files open_dates merge_seconds merge_rows merge_phase
write_amplification symbol_ids symbol_duplicates quarantine_total late_rows_total out_of_bounds_total disk_bytes
disk_free_bytes waste_bytes pins oldest_pin_seconds lease_lost_total checksum_errors_total
"""
EVERY = (*CATALOGUE, *OF_TABLES, *OF_LOGS)
UNITS = {"seconds": r"[Ss]econd|\b[Aa]ge\b|Unix time", "bytes": r"[Bb]ytes", "ratio": r"Fraction"}


def test_names_kinds_and_labels_stay() -> None:
    assert [(item.name, item.kind, " ".join(item.labels)) for item in EVERY] == METRICS
    assert {item.name for item in EVERY} >= set(WANTED.split())


def test_a_help_text_names_the_unit_of_the_name() -> None:
    for item in EVERY:
        for unit, words in UNITS.items():
            if re.search(rf"_{unit}(?:_total|_cut)?$", item.name):
                assert re.search(words, item.help), item.name
        assert item.help.count(".") and item.help[0].isupper() | item.help[0].isdigit()
        assert bool(item.buckets) is (item.kind == "histogram")
