"""Parts of reference pages that are made from the code, by the name that a page's marker gives."""

from __future__ import annotations

from collections.abc import Callable

from tools.docs.commands import command_pages
from tools.docs.dumps import DUMPS
from tools.docs.figures import figure_table, peer_table
from tools.docs.settings import stream_file_tables
from tools.docs.tables import (
    coded_conversion_table,
    conversion_table,
    error_table,
    finding_tables,
    metric_tables,
    reason_table,
    resume_rule_table,
    schema_code_table,
    type_table,
    validator_rule_table,
)

GENERATED: dict[str, Callable[[], str]] = {
    "cli": command_pages,
    "coded_conversions": coded_conversion_table,
    "conversions": conversion_table,
    "errors": error_table,
    "figures": figure_table,
    "findings": finding_tables,
    "metrics": metric_tables,
    "peers": peer_table,
    "reasons": reason_table,
    "resume_rules": resume_rule_table,
    "schema_codes": schema_code_table,
    "settings": stream_file_tables,
    "types": type_table,
    "validator_rules": validator_rule_table,
    **DUMPS,
}
