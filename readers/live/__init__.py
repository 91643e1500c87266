"""Tables that an engine reads while they grow: ``service`` joins ``backend`` to Deephaven, the rest needs no engine."""
