/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/doctor_load.h"

#include "tools/common/rows.h"
#include "wire/doctor/checks.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_MAX 24u
#define FULL_PERCENT 75u
#define SUBS_MAX 3u /* of a kind that are named */
/* So many bytes wait for a subscription that keeps up; `check lag` warns from there on. */
#define BEHIND_BYTES (UINT64_C(64) << 20)

static const char *text_of(uint64_t value, char out[NUMBER_MAX])
{
    (void)snprintf(out, NUMBER_MAX, "%" PRIu64, value);
    return out;
}

/* ---- limits ---- */

static void judge(enum amb_doctor_check check, const char *name, uint64_t used, uint64_t limit,
                  json_t *rows)
{
    char text[96], most[NUMBER_MAX], number[NUMBER_MAX], percent[NUMBER_MAX];
    if (limit == 0) {
        return;
    }
    uint64_t part = used / limit * 100 + used % limit * 100 / limit;
    if (part >= FULL_PERCENT) {
        amb_doctor_find(rows, check, "used", text_of(used, number), "limit", text_of(limit, most),
                        "percent", text_of(part, percent), NULL);
        return;
    }
    (void)snprintf(text, sizeof(text), "%" PRIu64 " of %" PRIu64 " (%" PRIu64 " %%)", used, limit,
                   part);
    amb_doctor_well(rows, name, text, "");
}

/* ---- subscriptions ---- */

/* The first ones of a list that is sorted by `key`, while they are beyond the limit. */
static void name_subs(enum amb_doctor_check check, const json_t *answer, const char *key,
                      uint64_t limit, json_t *rows)
{
    const json_t *list = json_object_get(answer, "subs");
    for (size_t i = 0; i < json_array_size(list) && i < SUBS_MAX; i++) {
        const json_t *row = json_array_get(list, i);
        const char *pattern = json_string_value(json_object_get(row, "pattern"));
        char id[NUMBER_MAX], client[NUMBER_MAX], number[NUMBER_MAX], most[NUMBER_MAX];
        uint64_t value = amb_rows_number(row, key);
        if (value <= limit) {
            return;
        }
        amb_doctor_find(rows, check, "id", text_of(amb_rows_number(row, "id"), id), "pattern",
                        pattern, "client", text_of(amb_rows_number(row, "client"), client), "lost",
                        text_of(value, number), "waiting", number, "limit", text_of(limit, most),
                        NULL);
    }
}

void amb_doctor_load(const json_t *status, const json_t *losers, const json_t *waiters,
                     json_t *rows)
{
    char lost[NUMBER_MAX];
    uint64_t dead = amb_rows_number(status, "dead_letters_lost");
    judge(AMB_DOCTOR_MEMORY_FULL, "memory used", amb_rows_number(status, "memory_used_bytes"),
          amb_rows_number(status, "memory_limit_bytes"), rows);
    judge(AMB_DOCTOR_TOPICS_FULL, "topics", amb_rows_number(status, "topics"),
          amb_rows_number(status, "topics_limit"), rows);
    if (dead != 0) {
        amb_doctor_find(rows, AMB_DOCTOR_DEAD_LETTERS, "lost", text_of(dead, lost), NULL);
    }
    name_subs(AMB_DOCTOR_SUBSCRIPTION_SLOW, losers, "lost_slow", 0, rows);
    name_subs(AMB_DOCTOR_SUBSCRIPTION_BEHIND, waiters, "pending_bytes", BEHIND_BYTES, rows);
}
