/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/counters/units.h"

json_t *amb_counters_units(const struct amb_counters_image *image, enum amb_counters_scope scope)
{
    json_t *units = json_object();
    for (uint32_t i = 0; i < image->header->metric_count; i++) {
        const struct amb_counters_metric *metric = &image->metrics[i];
        if (metric->scope == scope && metric->column[0] != '\0' && metric->unit[0] != '\0') {
            json_t *unit = json_string(metric->unit);
            /* Bytes that are no UTF-8 can only come from a file that somebody made up. */
            (void)json_object_set_new(units, metric->column,
                                      unit != NULL ? unit : json_string("?"));
        }
    }
    return units;
}
