package io.deephaven.db.tables;

import java.io.*;

/** Reads one column as its real class would. */
public class DefaultColumnDefinition implements Externalizable {
    private static final long serialVersionUID = 0x4EE3070A68292BB6L;
    private String text = "";

    @Override
    public void readExternal(ObjectInput in) throws IOException, ClassNotFoundException {
        text = in.readUTF() + " " + name(in.readObject()) + " " + name(in.readObject()) + " " + in.readInt();
        text += " " + in.readObject() + " " + in.readInt() + " " + in.readUTF() + " " + in.readUTF() + " " + in.readInt();
        text = text.replace("\0", "null");
    }

    private static String name(Object type) {
        return type == null ? "null" : ((Class<?>) type).getName();
    }

    @Override
    public void writeExternal(ObjectOutput out) {
        throw new UnsupportedOperationException();
    }

    @Override
    public String toString() {
        return text;
    }
}
