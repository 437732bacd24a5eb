/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/base/log_fold.h"

#include "broker/base/log_group.h"
#include "wire/base/clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX 200u

/* The lines of a group in this minute, which begins with the group's time. */
struct row {
    uint64_t more; /* lines like the first, since */
    enum amb_log_level level;
    bool is_rest;        /* as its group was */
    char text[TEXT_MAX]; /* of the last one */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of both tables */
static struct amb_log_group groups[AMB_LOG_FOLD_LINES];
static struct row rows[AMB_LOG_FOLD_LINES];
static _Atomic uint64_t waiting; /* lines that were counted and not told */
/* The line that tells of a count is no event of its own. */
static _Thread_local bool is_telling;

bool amb_log_fold_is_telling(void)
{
    return is_telling;
}

static void tell(const struct row *row)
{
    is_telling = true;
    amb_log_write(row->level, "%s (%" PRIu64 " more %s this within a minute)", row->text, row->more,
                  row->is_rest ? "like" : "of");
    is_telling = false;
}

/* Takes a row out of the table. True: *out is to be told. */
static bool row_take(unsigned at, struct row *out)
{
    *out = rows[at];
    groups[at].site = NULL;
    if (out->more != 0) {
        (void)atomic_fetch_sub_explicit(&waiting, out->more, memory_order_relaxed);
    }
    return out->more != 0;
}

static void row_count(struct row *row, const char *line)
{
    row->more++;
    (void)atomic_fetch_add_explicit(&waiting, 1, memory_order_relaxed);
    (void)snprintf(row->text, sizeof(row->text), "%s", line);
}

static bool is_over(unsigned at, int64_t now_ns)
{
    return now_ns - groups[at].at_ns >= AMB_LOG_FOLD_NS;
}

/* Rows whose minute is over, and that have nothing to tell. */
static void free_some(int64_t now_ns)
{
    for (unsigned i = 0; i < AMB_LOG_FOLD_LINES; i++) {
        if (groups[i].site != NULL && rows[i].more == 0 && is_over(i, now_ns)) {
            groups[i].site = NULL;
        }
    }
}

/* True: the line is written. *has_gone: *gone is to be told. */
static bool place(enum amb_log_level level, const char *site, const char *line, int64_t now_ns,
                  struct row *gone, bool *has_gone)
{
    uint64_t hash = amb_log_group_hash(line);
    struct amb_log_found found;
    free_some(now_ns);
    amb_log_group_find(groups, AMB_LOG_FOLD_LINES, site, hash, &found);
    struct row *row = &rows[found.at];
    if (found.is_there && !is_over(found.at, now_ns)) {
        row_count(row, line);
        return false;
    }
    *has_gone = groups[found.at].site != NULL && row_take(found.at, gone);
    groups[found.at] = (struct amb_log_group){
        .site = site, .hash = hash, .at_ns = now_ns, .is_rest = found.is_rest};
    *row = (struct row){.level = level, .is_rest = found.is_rest};
    if (found.is_rest) {
        row_count(row, line);
    }
    return !found.is_rest;
}

bool amb_log_fold_at(enum amb_log_level level, const char *site, const char *line, int64_t now_ns)
{
    if (level > AMB_LOG_WARN || is_telling) {
        return true;
    }
    struct row gone;
    bool has_gone = false;
    (void)pthread_mutex_lock(&lock);
    bool is_written = place(level, site, line, now_ns, &gone, &has_gone);
    (void)pthread_mutex_unlock(&lock);
    if (has_gone) {
        tell(&gone);
    }
    return is_written;
}

bool amb_log_fold(enum amb_log_level level, const char *site, const char *line)
{
    return level > AMB_LOG_WARN || amb_log_fold_at(level, site, line, amb_clock_monotonic_ns());
}

/* True: *out is to be told. */
static bool take_one(unsigned *from, int64_t now_ns, struct row *out)
{
    bool is_found = false;
    (void)pthread_mutex_lock(&lock);
    for (; *from < AMB_LOG_FOLD_LINES && !is_found; (*from)++) {
        bool is_due = groups[*from].site != NULL && (now_ns == INT64_MAX || is_over(*from, now_ns));
        is_found = is_due && row_take(*from, out);
    }
    (void)pthread_mutex_unlock(&lock);
    return is_found;
}

bool amb_log_fold_waits(void)
{
    return atomic_load_explicit(&waiting, memory_order_relaxed) != 0;
}

void amb_log_fold_tick(int64_t now_ns)
{
    if (!amb_log_fold_waits() && now_ns != INT64_MAX) {
        return;
    }
    struct row row;
    for (unsigned from = 0; take_one(&from, now_ns, &row);) {
        tell(&row);
    }
}
