/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/doctor_tls.h"

#include "broker/control/clients/expiry.h"
#include "broker/control/status/doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#define TEXT_MAX 400u
#define CHECK_MAX 32u

static void look_at_time(const char *check, const struct amb_tls_used *used, int64_t now_s,
                         json_t *rows)
{
    char text[TEXT_MAX];
    unsigned step = amb_expiry_step(used->expires_s, now_s);
    if (used->expires_s == INT64_MAX) {
        return; /* A key has no end of its own. */
    }
    if (used->expires_s <= now_s) {
        (void)snprintf(text, sizeof(text), "%s has expired", used->path);
    } else {
        (void)snprintf(text, sizeof(text), "%s expires in %" PRId64 " days", used->path,
                       amb_expiry_days(used->expires_s, now_s));
    }
    amb_doctor_find(
        rows, check,
        used->expires_s <= now_s ? "error"
        : step > 0               ? "warning"
                                 : "ok",
        text, step > 0 ? "replace the file (broker-ctl tls renew), and have brokerd reload" : "");
}

static void look_at_file(const char *check, const struct amb_tls_used *used, json_t *rows)
{
    char text[TEXT_MAX];
    struct stat st;
    if (stat(used->path, &st) != 0) {
        (void)snprintf(text, sizeof(text), "%s is not there any more", used->path);
        amb_doctor_find(rows, check, "warning", text, "brokerd will not start again without it");
    } else if (amb_tls_modified_ns(&st) > used->modified_ns) {
        (void)snprintf(text, sizeof(text), "%s is newer than what is in use", used->path);
        amb_doctor_find(rows, check, "warning", text,
                        "have brokerd reload (SIGHUP); its log says why, if it has refused to");
    }
}

void amb_doctor_tls(const struct amb_tls_context *context, int64_t now_s, json_t *rows)
{
    for (unsigned i = 0; i < AMB_TLS_FILES; i++) {
        const enum amb_tls_file file = (enum amb_tls_file)i;
        const struct amb_tls_used *used = amb_tls_context_used(context, file);
        if (used != NULL) {
            char check[CHECK_MAX];
            (void)snprintf(check, sizeof(check), "tls %s", amb_tls_file_name(file));
            look_at_time(check, used, now_s, rows);
            look_at_file(check, used, rows);
        }
    }
}
