/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/doctor_users.h"

#include "broker/control/clients/expiry.h"
#include "broker/control/status/doctor.h"
#include "wire/auth/private_file.h"
#include "wire/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define CHECK "users file"
#define TEXT_MAX 640u

/* ---- the file ---- */

/* Would it be taken now? False: a row says why not. */
static bool look_at_content(const char *path, json_t *rows)
{
    char why[AMB_AUTH_WHY_MAX];
    struct amb_auth_users *users = NULL;
    if (amb_auth_users_load(path, NULL, why, sizeof(why), &users) != AMB_OK) {
        amb_doctor_find(rows, CHECK, "error", why,
                        "mend the line; the users in force stay until the file is right");
        return false;
    }
    amb_auth_users_unref(&users);
    return true;
}

/* False: there is a row about it. */
static bool look_at_file(const struct amb_auth_users *users, const char *path, json_t *rows)
{
    char text[TEXT_MAX], why[AMB_PRIVATE_WHY_MAX];
    struct stat st;
    if (stat(path, &st) != 0) {
        (void)snprintf(text, sizeof(text), "%s is not there any more", path);
        amb_doctor_find(rows, CHECK, "error", text, "brokerd will not start again without it");
        return false;
    }
    if (!amb_private_file_check(path, &st, why)) {
        amb_doctor_find(rows, CHECK, "error", why,
                        "chmod 600, and chown to root or the broker's user");
        return false;
    }
    int64_t modified_ns = (int64_t)st.st_mtim.tv_sec * AMB_NS_PER_SEC + st.st_mtim.tv_nsec;
    if (modified_ns == amb_auth_users_modified_ns(users)) {
        return true;
    }
    if (st.st_size <= AMB_DOCTOR_USERS_MAX && !look_at_content(path, rows)) {
        return false;
    }
    (void)snprintf(text, sizeof(text), "%s is newer than what is in use", path);
    amb_doctor_find(rows, CHECK, "warning", text, "broker-ctl reload; it says why, if it refuses");
    return false;
}

/* ---- users ---- */

struct ends {
    unsigned soon, over;
    const char *first; /* of those */
    int64_t days;
};

static void count_end(struct ends *ends, const struct amb_auth_user *user, int64_t now_s)
{
    if (user->is_off || user->until_s == AMB_USER_FOR_EVER) {
        return;
    }
    bool is_over = user->until_s <= now_s;
    if (!is_over && amb_expiry_step(user->until_s, now_s) == 0) {
        return;
    }
    if (ends->soon + ends->over == 0) {
        ends->first = user->name;
        ends->days = amb_expiry_days(user->until_s, now_s);
    }
    ends->soon += !is_over;
    ends->over += is_over;
}

static void look_at_ends(const struct amb_auth_users *users, json_t *rows, int64_t now_s)
{
    struct ends ends = {0};
    char text[TEXT_MAX];
    for (size_t i = 0; i < amb_auth_users_count(users); i++) {
        count_end(&ends, amb_auth_users_at(users, i), now_s);
    }
    if (ends.soon + ends.over == 0) {
        return;
    }
    (void)snprintf(
        text, sizeof(text),
        "%u users expire within 30 days, and %u have expired; the first one is %s (%" PRId64
        " days)",
        ends.soon, ends.over, ends.first, ends.days);
    amb_doctor_find(rows, "users", "warning", text,
                    "broker-ctl user set NAME --until DAY, or rm NAME");
}

void amb_doctor_users(const struct amb_auth_users *users, const char *path, int64_t now_s,
                      json_t *rows)
{
    char text[TEXT_MAX];
    if (users == NULL) {
        return;
    }
    if (look_at_file(users, path, rows)) {
        (void)snprintf(text, sizeof(text), "%zu users of %s", amb_auth_users_count(users), path);
        amb_doctor_find(rows, CHECK, "ok", text, "");
    }
    look_at_ends(users, rows, now_s);
}

/* ---- the audit log ---- */

void amb_doctor_audit(const struct amb_audit *audit, json_t *rows)
{
    char text[TEXT_MAX];
    if (audit == NULL) {
        return;
    }
    int trouble = atomic_load_explicit(&audit->trouble, memory_order_relaxed);
    uint64_t lost = atomic_load_explicit(&audit->lost, memory_order_relaxed);
    if (trouble != 0) {
        (void)snprintf(text, sizeof(text), "log.audit cannot be written: %s; commands are refused",
                       strerrordesc_np(trouble));
        amb_doctor_find(rows, "audit log", "error", text, "make room on that disk");
    } else if (lost != 0) {
        (void)snprintf(text, sizeof(text), "%" PRIu64 " entries were not written", lost);
        amb_doctor_find(rows, "audit log", "warning", text,
                        "the log's lines with the event \"lost\" say when");
    } else {
        amb_doctor_find(rows, "audit log", "ok", "each entry is written", "");
    }
}
