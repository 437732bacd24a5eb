/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/iterations.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

int64_t amb_iterations_median(const int64_t *sorted_ns, uint64_t count)
{
    if (count == 0) {
        return 0;
    }
    int64_t low = sorted_ns[(count - 1) / 2], high = sorted_ns[count / 2];
    return low + (high - low) / 2;
}

double amb_iterations_mean(const int64_t *took_ns, uint64_t count)
{
    double sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        sum += (double)took_ns[i];
    }
    return count > 0 ? sum / (double)count : 0;
}

static double mb_per_s(double bytes, double ns)
{
    return ns > 0 ? bytes * 1e3 / ns : 0;
}

void amb_iterations_add(int64_t *took_ns, uint64_t count, double bytes, bool wants_rows,
                        json_t *result)
{
    double mean_ns = amb_iterations_mean(took_ns, count);
    json_t *rows = wants_rows ? json_array() : NULL;
    for (uint64_t i = 0; wants_rows && i < count; i++) {
        json_t *row =
            json_pack("{s:I, s:f, s:f}", "number", (json_int_t)i, "mb_per_s",
                      mb_per_s(bytes, (double)took_ns[i]), "us", (double)took_ns[i] / 1e3);
        (void)json_array_append_new(rows, row);
    }
    qsort(took_ns, count, sizeof(*took_ns), compare);
    double median_ns = (double)amb_iterations_median(took_ns, count);
    (void)json_object_set_new(result, "mb_per_s", json_real(mb_per_s(bytes, mean_ns)));
    (void)json_object_set_new(result, "mb_per_s_median", json_real(mb_per_s(bytes, median_ns)));
    (void)json_object_set_new(result, "total_s", json_real(mean_ns * (double)count / 1e9));
    if (rows != NULL) {
        (void)json_object_set_new(result, "iteration", rows);
    }
}
