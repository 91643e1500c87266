package io.deephaven.db.tables.utils;

import java.io.*;

/** Only named in a definition: the type of a time column. */
public class DBDateTime implements Externalizable {
    private static final long serialVersionUID = 0x82047EA1C3C8D7A7L;

    @Override
    public void readExternal(ObjectInput in) {}

    @Override
    public void writeExternal(ObjectOutput out) {}
}
