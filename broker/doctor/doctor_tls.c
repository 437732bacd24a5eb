/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/doctor/doctor_tls.h"

#include "broker/control/clients/expiry.h"
#include "wire/doctor/checks.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#define TEXT_MAX 400u
#define CHECK_MAX 32u

static void look_at_time(const char *file, const struct amb_tls_used *used, int64_t now_s,
                         json_t *rows)
{
    char check[CHECK_MAX], text[TEXT_MAX], days[CHECK_MAX];
    if (used->expires_s == INT64_MAX) {
        return; /* A key has no end of its own. */
    }
    (void)snprintf(days, sizeof(days), "%" PRId64, amb_expiry_days(used->expires_s, now_s));
    if (used->expires_s <= now_s) {
        amb_doctor_find(rows, AMB_DOCTOR_TLS_EXPIRED, "file", file, "path", used->path, NULL);
    } else if (amb_expiry_step(used->expires_s, now_s) > 0) {
        amb_doctor_find(rows, AMB_DOCTOR_TLS_EXPIRES, "file", file, "path", used->path, "days",
                        days, NULL);
    } else {
        (void)snprintf(check, sizeof(check), "tls %s", file);
        (void)snprintf(text, sizeof(text), "%s expires in %s days", used->path, days);
        amb_doctor_well(rows, check, text, "");
    }
}

static void look_at_file(const char *file, const struct amb_tls_used *used, json_t *rows)
{
    struct stat st;
    if (stat(used->path, &st) != 0) {
        amb_doctor_find(rows, AMB_DOCTOR_TLS_GONE, "file", file, "path", used->path, NULL);
    } else if (amb_tls_modified_ns(&st) != used->modified_ns) { /* A restored one may be older. */
        amb_doctor_find(rows, AMB_DOCTOR_TLS_NEWER, "file", file, "path", used->path, NULL);
    }
}

void amb_doctor_tls(const struct amb_tls_context *context, int64_t now_s, json_t *rows)
{
    for (unsigned i = 0; i < AMB_TLS_FILES; i++) {
        const enum amb_tls_file file = (enum amb_tls_file)i;
        const struct amb_tls_used *used = amb_tls_context_used(context, file);
        if (used != NULL) {
            look_at_time(amb_tls_file_name(file), used, now_s, rows);
            look_at_file(amb_tls_file_name(file), used, rows);
        }
    }
}
