/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/expiry.h"

#include "broker/config/config.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/events.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#define DAY_S INT64_C(86400)
#define LOOK_NS (60 * AMB_NS_PER_SEC)

static const int64_t days_before[] = {30, 7, 1};
#define STEPS (sizeof(days_before) / sizeof(days_before[0]))

unsigned amb_expiry_step(int64_t expires_s, int64_t now_s)
{
    unsigned step = 0;
    if (expires_s == INT64_MAX) {
        return 0;
    }
    while (step < STEPS && expires_s - now_s <= days_before[step] * DAY_S) {
        step++;
    }
    return expires_s <= now_s ? step + 1 : step;
}

int64_t amb_expiry_days(int64_t expires_s, int64_t now_s)
{
    return (expires_s - now_s) / DAY_S;
}

bool amb_expiry_next(struct amb_expiry *expiry, const struct amb_tls_context *context,
                     int64_t now_s, enum amb_tls_file *out)
{
    if (expiry->context != context) {
        expiry->context = context;
        memset(expiry->told, 0, sizeof(expiry->told));
    }
    for (unsigned i = 0; i < AMB_TLS_FILES; i++) {
        const struct amb_tls_used *used = amb_tls_context_used(context, (enum amb_tls_file)i);
        unsigned step = used == NULL ? 0 : amb_expiry_step(used->expires_s, now_s);
        if (step > expiry->told[i]) {
            expiry->told[i] = (uint8_t)step;
            *out = (enum amb_tls_file)i;
            return true;
        }
    }
    return false;
}

static void tell(struct amb_control *control, enum amb_tls_file file, int64_t now_s)
{
    const struct amb_tls_used *used = amb_tls_context_used(control->expiry.context, file);
    int64_t days = amb_expiry_days(used->expires_s, now_s);
    if (used->expires_s <= now_s) {
        amb_error("tls.%s: %s has expired: clients do not come in by it", amb_tls_file_name(file),
                  used->path);
    } else {
        amb_warn("tls.%s: %s expires in %" PRId64 " days", amb_tls_file_name(file), used->path,
                 days);
    }
    if (amb_events_are_wanted(control)) {
        amb_events_publish(control, AMB_TENANT_OPERATORS, "$SYS.tls.expiring",
                           json_pack("{s:s, s:s?, s:I, s:I}", "key", amb_tls_file_name(file),
                                     "file", used->path, "days_left", (json_int_t)days, "expires_s",
                                     (json_int_t)used->expires_s));
    }
}

void amb_expiry_look(struct amb_control *control)
{
    struct amb_expiry *expiry = &control->expiry;
    const struct amb_tls_context *context = control->config->tls.context;
    if (context == expiry->context && control->now_ns < expiry->due_ns) {
        return;
    }
    int64_t now_s = amb_clock_realtime_ns() / AMB_NS_PER_SEC;
    enum amb_tls_file file;
    expiry->due_ns = amb_deadline_ns(control->now_ns, LOOK_NS);
    while (amb_expiry_next(expiry, context, now_s, &file)) {
        tell(control, file, now_s);
    }
}
