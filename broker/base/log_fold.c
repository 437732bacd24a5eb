/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/base/log_fold.h"

#include "wire/base/clock.h"
#include "wire/base/hash.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX 200u

/* A line of this minute. */
struct row {
    const char *site; /* NULL: free */
    uint64_t hash;    /* of its text */
    int64_t since_ns;
    uint64_t more; /* lines like it, since */
    enum amb_log_level level;
    bool is_rest;        /* of the texts of its place that were too many */
    char text[TEXT_MAX]; /* of the last one */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the table */
static struct row rows[AMB_LOG_FOLD_LINES];
static _Atomic uint64_t waiting; /* lines that were counted and not told */
/* The line that tells of a count is no event of its own. */
static _Thread_local bool is_telling;

/* Under the lock. Texts are told apart by it alone, so no peer that chooses a part of one may know
 * the key. */
static uint64_t hash_of(const char *text)
{
    static uint8_t key[16];
    static bool has_key;
    if (!has_key) {
        amb_random_bytes(key, sizeof(key));
        has_key = true;
    }
    return amb_siphash24(key, text, strlen(text));
}

static void tell(const struct row *row)
{
    is_telling = true;
    amb_log_write(row->level, "%s (%" PRIu64 " more %s this within a minute)", row->text, row->more,
                  row->is_rest ? "like" : "of");
    is_telling = false;
}

/* Takes the row out of the table. True: *out is to be told. */
static bool row_take(struct row *row, struct row *out)
{
    *out = *row;
    row->site = NULL;
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

static bool is_over(const struct row *row, int64_t now_ns)
{
    return now_ns - row->since_ns >= AMB_LOG_FOLD_NS;
}

/* The rows that a line may belong to. */
struct found {
    struct row *same, *rest; /* NULL: there is none */
    struct row *room;        /* a free one, else the oldest */
    unsigned texts;          /* of its place */
};

static void look_at(struct row *row, const char *site, uint64_t hash, int64_t now_ns,
                    struct found *found)
{
    bool is_free = row->site == NULL || (is_over(row, now_ns) && row->more == 0);
    bool has_free = found->room->site == NULL;
    if (is_free) {
        row->site = NULL;
        found->room = has_free ? found->room : row;
        return;
    }
    if (!has_free && row->since_ns < found->room->since_ns) {
        found->room = row;
    }
    if (row->site == site && row->is_rest) {
        found->rest = row;
    } else if (row->site == site) {
        found->texts++;
        found->same = row->hash == hash ? row : found->same;
    }
}

/* True: the line is written. *has_gone: *gone is to be told. */
static bool place(enum amb_log_level level, const char *site, const char *line, int64_t now_ns,
                  struct row *gone, bool *has_gone)
{
    uint64_t hash = hash_of(line);
    struct found found = {.room = &rows[0]};
    for (unsigned i = 0; i < AMB_LOG_FOLD_LINES; i++) {
        look_at(&rows[i], site, hash, now_ns, &found);
    }
    bool is_rest = found.same == NULL && found.texts >= AMB_LOG_FOLD_TEXTS;
    struct row *row = is_rest ? found.rest : found.same;
    if (row != NULL && !is_over(row, now_ns)) {
        row_count(row, line);
        return false;
    }
    row = row != NULL ? row : found.room;
    *has_gone = row->site != NULL && row_take(row, gone);
    *row = (struct row){
        .site = site, .hash = hash, .since_ns = now_ns, .level = level, .is_rest = is_rest};
    if (is_rest) {
        row_count(row, line);
    }
    return !is_rest;
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
        struct row *row = &rows[*from];
        bool is_due = row->site != NULL && (now_ns == INT64_MAX || is_over(row, now_ns));
        is_found = is_due && row_take(row, out);
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
