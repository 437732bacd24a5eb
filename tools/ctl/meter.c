/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/meter.h"

#include "tools/common/units.h"

#include <amb/amb.h>
#include <math.h>

#define ROW_NS AMB_SEC
#define SHARE 16.0 /* of a new difference in the average */

void amb_meter_init(struct amb_meter *meter, int64_t now_ns)
{
    *meter = (struct amb_meter){.since_ns = now_ns};
}

/* The way's time; of times that are too far from each other the end of the scale. */
static int64_t transit_of(int64_t now_ns, int64_t time_ns)
{
    int64_t transit_ns;
    if (__builtin_sub_overflow(now_ns, time_ns, &transit_ns)) {
        return now_ns < time_ns ? INT64_MIN : INT64_MAX;
    }
    return transit_ns;
}

void amb_meter_add(struct amb_meter *meter, uint64_t len, uint64_t lost, int64_t now_ns,
                   int64_t time_ns)
{
    int64_t transit_ns = transit_of(now_ns, time_ns);
    meter->messages++;
    meter->bytes += len;
    if (lost == UINT64_MAX) {
        meter->is_gap_unknown = true;
    } else {
        meter->gaps += lost;
    }
    if (meter->has_transit) {
        double change_ns = fabs((double)transit_ns - (double)meter->transit_ns);
        meter->jitter_ns += (change_ns - meter->jitter_ns) / SHARE;
    }
    meter->has_transit = true;
    meter->transit_ns = transit_ns;
}

json_t *amb_meter_row(struct amb_meter *meter, int64_t now_ns, bool is_last)
{
    int64_t row_ns = now_ns - meter->since_ns;
    if (row_ns < ROW_NS && !(is_last && meter->messages > 0)) {
        return NULL;
    }
    json_t *gaps = meter->is_gap_unknown ? json_null() : json_integer((json_int_t)meter->gaps);
    json_t *row =
        json_pack("{s:f, s:I, s:I, s:o, s:I}", "seconds", (double)row_ns / (double)AMB_SEC,
                  "messages", (json_int_t)meter->messages, "bytes", (json_int_t)meter->bytes,
                  "gaps", gaps, "jitter_ns", (json_int_t)amb_units_whole(meter->jitter_ns));
    meter->since_ns = now_ns;
    meter->messages = meter->bytes = meter->gaps = 0;
    meter->is_gap_unknown = false;
    return row;
}

void amb_meter_print(const json_t *row, bool wants_head, FILE *out)
{
    char bytes[32], jitter[32], gaps[32] = "-";
    json_t *lost = json_object_get(row, "gaps");
    amb_units_format_bytes(json_number_value(json_object_get(row, "bytes")), bytes, sizeof(bytes));
    amb_units_format_ns(json_number_value(json_object_get(row, "jitter_ns")), jitter,
                        sizeof(jitter));
    if (json_is_integer(lost)) {
        (void)snprintf(gaps, sizeof(gaps), "%" JSON_INTEGER_FORMAT, json_integer_value(lost));
    }
    if (wants_head) {
        (void)fprintf(out, "%8s %12s %12s %12s %12s\n", "seconds", "messages", "bytes", "gaps",
                      "jitter");
    }
    (void)fprintf(out, "%8.2f %12" JSON_INTEGER_FORMAT " %12s %12s %12s\n",
                  json_real_value(json_object_get(row, "seconds")),
                  json_integer_value(json_object_get(row, "messages")), bytes, gaps, jitter);
}
