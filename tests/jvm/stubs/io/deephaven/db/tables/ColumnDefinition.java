package io.deephaven.db.tables;

/** The class that a definition names. */
public class ColumnDefinition extends DefaultColumnDefinition {
    private static final long serialVersionUID = 0x32BE576E0E61842AL;
}
