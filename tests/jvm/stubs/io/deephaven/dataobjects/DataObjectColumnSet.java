package io.deephaven.dataobjects;

import java.io.Serializable;
import java.util.HashMap;

/** The serial form of a column set, and nothing else. */
public class DataObjectColumnSet implements Serializable {
    private static final long serialVersionUID = 0x000027959E7BCB97L;
    DataObjectColumn[] columns_;
    DataObjectColumn[] indexColumns_;
    DataObjectColumn[] keys_;
    HashMap<String, DataObjectColumn> nameToColumn_;
    String name_;
}
