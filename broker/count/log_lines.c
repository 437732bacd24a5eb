/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/count/log_lines.h"

#include "broker/base/log_fold.h"
#include "broker/base/log_group.h"
#include "broker/count/counters_slots.h"
#include "broker/count/figures.h"
#include "wire/base/clock.h"
#include "wire/base/utf8.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

/* Of a line, as much as fits a slot behind its level. */
#define TEXT_MAX (AMB_TEXTS_BYTES - sizeof("error"))

struct line {
    struct amb_line_words words;
    enum amb_log_level level;
    char text[TEXT_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all of this */
static struct amb_log_group groups[AMB_COUNTERS_LINES];  /* their time is that of the last line */
static struct line lines[AMB_COUNTERS_LINES];
static uint64_t errors, warnings, forgotten;
static struct amb_counters *attached;

static void put_totals(void)
{
    struct amb_broker_stats *stats = amb_counters_broker(attached);
    amb_stat_set(&stats->log_errors, errors);
    amb_stat_set(&stats->log_warnings, warnings);
    amb_stat_set(&stats->log_forgotten, forgotten);
}

static void put_line(unsigned at)
{
    const struct line *line = &lines[at];
    if (at >= attached->header->line_count) {
        return;
    }
    const char *const texts[] = {line->level == AMB_LOG_ERROR ? "error" : "warn", line->text};
    amb_counters_write_texts(&attached->lines[at], AMB_COUNTERS_LINE, at + 1, &line->words,
                             sizeof(line->words), texts, 2);
}

/* As many characters as have room. A byte that is no UTF-8 becomes "?". */
static void set_text(struct line *line, const char *text)
{
    size_t used = 0;
    uint32_t code;
    for (const uint8_t *at = (const uint8_t *)text; *at != '\0';) {
        size_t len = amb_utf8_decode(at, AMB_UTF8_MAX, &code);
        size_t size = len == 0 ? 1 : len;
        if (used + size >= TEXT_MAX) {
            break;
        }
        memcpy(line->text + used, len == 0 ? (const void *)"?" : at, size);
        used += size;
        at += size;
    }
    line->text[used] = '\0';
}

static unsigned count(enum amb_log_level level, const char *site, const char *text, int64_t real_ns)
{
    uint64_t hash = amb_log_group_hash(text), now_s = (uint64_t)(real_ns / AMB_NS_PER_SEC);
    struct amb_log_found found;
    amb_log_group_find(groups, AMB_COUNTERS_LINES, site, hash, &found);
    struct line *line = &lines[found.at];
    if (!found.is_there) {
        forgotten += groups[found.at].site != NULL;
        groups[found.at] =
            (struct amb_log_group){.site = site, .hash = hash, .is_rest = found.is_rest};
        line->words = (struct amb_line_words){.first_s = now_s};
    }
    groups[found.at].at_ns = real_ns;
    line->words.lines++;
    line->words.last_s = now_s;
    line->level = level;
    set_text(line, text);
    errors += level == AMB_LOG_ERROR;
    warnings += level == AMB_LOG_WARN;
    return found.at;
}

void amb_log_lines_see_at(enum amb_log_level level, const char *site, const char *line,
                          int64_t real_ns)
{
    (void)pthread_mutex_lock(&lock);
    unsigned at = count(level, site, line, real_ns);
    if (attached != NULL) {
        put_line(at);
        put_totals();
    }
    (void)pthread_mutex_unlock(&lock);
}

void amb_log_lines_see(enum amb_log_level level, const char *site, const char *line)
{
    if (!amb_log_fold_is_telling()) {
        amb_log_lines_see_at(level, site, line, amb_clock_realtime_ns());
    }
}

void amb_log_lines_attach(struct amb_counters *counters)
{
    (void)pthread_mutex_lock(&lock);
    attached = counters;
    for (unsigned i = 0; i < AMB_COUNTERS_LINES; i++) {
        if (groups[i].site != NULL) {
            put_line(i);
        }
    }
    put_totals();
    (void)pthread_mutex_unlock(&lock);
}

void amb_log_lines_detach(const struct amb_counters *counters)
{
    (void)pthread_mutex_lock(&lock);
    attached = attached == counters ? NULL : attached;
    (void)pthread_mutex_unlock(&lock);
}
