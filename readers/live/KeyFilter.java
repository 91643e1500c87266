// A part of Regions: filters on some values of a column, which an index answers.

private static final class KeyFilter {
    private static final int MOST_KEYS = 1 << 12;
    static final List<RegionedPushdownAction> BY_INDEX = List.of(new RegionedPushdownAction.Region(
            () -> QueryTable.DISABLE_WHERE_PUSHDOWN_DATA_INDEX, PushdownResult.LOCATION_IN_MEMORY_DATA_INDEX_COST,
            context -> true, (location, region) -> true));

    /** Values of a column of which a row that a filter keeps has one; null: it is another filter. */
    static Object[] keys(WhereFilter filter) {
        final MatchFilter match = MatchFilter.extractMatchFilter(filter).orElse(null);
        if (match == null || match.getMatchOptions().inverted() || match.getMatchOptions().caseInsensitive()
                || match.getValues() == null || match.getValues().length > MOST_KEYS) {
            return null;
        }
        final Object[] keys = match.getValues().clone();
        for (int key = 0; key < keys.length; key++) {
            final Object value = keys[key];
            if (value instanceof Byte || value instanceof Short || value instanceof Integer) {
                keys[key] = ((Number) value).longValue();
            } else if (value instanceof Float) {
                keys[key] = ((Float) value).doubleValue();
            } else if (value instanceof Character) {
                keys[key] = (long) (Character) value;
            } else if (value != null && !(value instanceof Long || value instanceof Double || value instanceof String)) {
                return null;
            }
        }
        return keys;
    }

    /** From starts and ends of ranges, in turn. */
    static RowSet rows(long[] bounds) {
        final RowSetBuilderSequential rows = RowSetFactory.builderSequential();
        for (int at = 0; at < bounds.length; at += 2) {
            rows.appendRange(bounds[at], bounds[at + 1] - 1);
        }
        return rows.build();
    }
}
