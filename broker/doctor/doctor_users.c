/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/doctor/doctor_users.h"

#include "broker/control/clients/expiry.h"
#include "wire/auth/private_file.h"
#include "wire/base/clock.h"
#include "wire/doctor/checks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define CHECK "users file"
#define TEXT_MAX 640u
#define NUMBER_MAX 24u

/* ---- the file ---- */

/* Would it be taken now? False: a row says why not. */
static bool look_at_content(const char *path, json_t *rows)
{
    char why[AMB_AUTH_WHY_MAX];
    struct amb_auth_users *users = NULL;
    if (amb_auth_users_load(path, NULL, why, sizeof(why), &users) != AMB_OK) {
        amb_doctor_find(rows, AMB_DOCTOR_USERS_WRONG, "why", why, NULL);
        return false;
    }
    amb_auth_users_unref(&users);
    return true;
}

/* False: there is a row about it. */
static bool look_at_file(const struct amb_auth_users *users, const char *path, json_t *rows)
{
    char why[AMB_PRIVATE_WHY_MAX];
    struct stat st;
    if (stat(path, &st) != 0) {
        amb_doctor_find(rows, AMB_DOCTOR_USERS_GONE, "path", path, NULL);
        return false;
    }
    if (!amb_private_file_check(path, &st, why)) {
        amb_doctor_find(rows, AMB_DOCTOR_USERS_MODE, "why", why, NULL);
        return false;
    }
    int64_t modified_ns = (int64_t)st.st_mtim.tv_sec * AMB_NS_PER_SEC + st.st_mtim.tv_nsec;
    if (modified_ns == amb_auth_users_modified_ns(users)) {
        return true;
    }
    if (st.st_size <= AMB_DOCTOR_USERS_MAX && !look_at_content(path, rows)) {
        return false;
    }
    amb_doctor_find(rows, AMB_DOCTOR_USERS_NEWER, "path", path, NULL);
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
    char soon[NUMBER_MAX], over[NUMBER_MAX], days[NUMBER_MAX];
    for (size_t i = 0; i < amb_auth_users_count(users); i++) {
        count_end(&ends, amb_auth_users_at(users, i), now_s);
    }
    if (ends.soon + ends.over == 0) {
        return;
    }
    (void)snprintf(soon, sizeof(soon), "%u", ends.soon);
    (void)snprintf(over, sizeof(over), "%u", ends.over);
    (void)snprintf(days, sizeof(days), "%" PRId64, ends.days);
    amb_doctor_find(rows, AMB_DOCTOR_USERS_EXPIRE, "soon", soon, "over", over, "name", ends.first,
                    "days", days, NULL);
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
        amb_doctor_well(rows, CHECK, text, "");
    }
    look_at_ends(users, rows, now_s);
}

/* ---- the audit log ---- */

void amb_doctor_audit(const struct amb_audit *audit, json_t *rows)
{
    char number[NUMBER_MAX];
    if (audit == NULL) {
        return;
    }
    int trouble = atomic_load_explicit(&audit->trouble, memory_order_relaxed);
    uint64_t lost = atomic_load_explicit(&audit->lost, memory_order_relaxed);
    (void)snprintf(number, sizeof(number), "%" PRIu64, lost);
    if (trouble != 0) {
        amb_doctor_find(rows, AMB_DOCTOR_AUDIT_STOPPED, "why", strerrordesc_np(trouble), NULL);
    } else if (lost != 0) {
        amb_doctor_find(rows, AMB_DOCTOR_AUDIT_LOST, "lost", number, NULL);
    } else {
        amb_doctor_well(rows, "audit log", "each entry is written", "");
    }
}
