/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/percentile.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void amb_percentile_sort(uint32_t *samples, size_t count)
{
    if (count > 1) {
        qsort(samples, count, sizeof(*samples), compare);
    }
}

uint32_t amb_percentile(const uint32_t *sorted, size_t count, double fraction)
{
    if (count == 0) {
        return 0;
    }
    double rank = ceil(fraction * (double)count);
    if (!(rank >= 1)) {
        return sorted[0];
    }
    return rank >= (double)count ? sorted[count - 1] : sorted[(size_t)rank - 1];
}
