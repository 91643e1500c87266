/* Values into the buffers of a column. */
#include <float.h>
#include <stddef.h>
#include <string.h>

#include "scan/columns.h"

void sh_set_null(struct sh_column *column, int64_t row) {
    column->valid[row] = 0;
    column->some_null = 1;
    switch (column->kind) {
    case SH_BYTE:
    case SH_BOOLEAN:
        ((uint8_t *)column->values)[row] = 0;
        break;
    case SH_SHORT:
    case SH_CHAR:
        ((uint16_t *)column->values)[row] = 0;
        break;
    case SH_INT:
    case SH_FLOAT:
    case SH_DATE:
        ((uint32_t *)column->values)[row] = 0;
        break;
    case SH_DECIMAL: {
        size_t width = column->high > 38 ? 32 : 16;
        memset((uint8_t *)column->values + (size_t)row * width, 0, width);
        break;
    }
    case SH_TEXT:
    case SH_TOKEN:
    case SH_NESTED:
        if (column->ids != NULL) {
            column->ids[row] = 0;
        } else {
            column->ends[row + 1] = column->ends[row];
        }
        break;
    default:
        ((uint64_t *)column->values)[row] = 0;
    }
    if (column->local != NULL) {
        column->local[row] = 0;
    }
}

int sh_put_number(const struct sh_scan *scan, struct sh_column *column, int64_t row, const struct sh_number *number) {
    int64_t whole;
    double value;
    switch (column->kind) {
    case SH_DOUBLE:
        if (!sh_double(number, scan->powers, &value) || value >= DBL_MAX || value <= -DBL_MAX) {
            return 0;
        }
        ((double *)column->values)[row] = value;
        return 1;
    case SH_FLOAT:
        if (!sh_double(number, scan->powers, &value) || value >= 3.4e38 || value <= -3.4e38) {
            return 0;
        }
        ((float *)column->values)[row] = (float)value;
        return 1;
    case SH_EPOCH:
        if (!sh_scaled(number, column->digits, &whole)) {
            return 0;
        }
        ((int64_t *)column->values)[row] = whole;
        return 1;
    default:
        break;
    }
    if (!sh_whole(number, &whole) || whole < column->low || whole > column->high) {
        return 0;
    }
    switch (column->kind) {
    case SH_BYTE:
        ((int8_t *)column->values)[row] = (int8_t)whole;
        break;
    case SH_SHORT:
        ((int16_t *)column->values)[row] = (int16_t)whole;
        break;
    case SH_INT:
        ((int32_t *)column->values)[row] = (int32_t)whole;
        break;
    default:
        ((int64_t *)column->values)[row] = whole;
    }
    return 1;
}
