package io.deephaven.dataobjects;

import java.io.Serializable;

/** The serial form of a column of a column set, and nothing else. */
public class DataObjectColumn implements Serializable {
    private static final long serialVersionUID = 0x000002FCCF62E32FL;
    int index_;
    boolean isKey_;
    boolean serializeAsObject_;
    boolean shouldBeSerialized_;
    String abbreviation_;
    String codecName;
    Class<?> javaType_;
    String label_;
    String name_;
    Class<?> type_;
}
