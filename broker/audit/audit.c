/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/audit/audit.h"

#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/base/list.h"
#include "wire/base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define TROUBLE_LOG_NS (60 * AMB_NS_PER_SEC)

/* An entry on its way. */
struct noted {
    struct amb_mail mail;
    struct amb_audit_answer *answer;
    struct amb_audit_entry entry;
};

/* A file on its way. */
struct change {
    struct amb_mail mail;
    struct amb_audit_file file;
    char *path;
};

/* ---- lines ---- */

/* A disk that is full is told once a minute, and counted. */
static void note_trouble(struct amb_audit *audit, int error, int64_t now_ns)
{
    bool is_new = atomic_load_explicit(&audit->trouble, memory_order_relaxed) == 0;
    atomic_store_explicit(&audit->trouble, error, memory_order_relaxed);
    if (error == 0) {
        return;
    }
    atomic_fetch_add_explicit(&audit->lost, 1, memory_order_relaxed);
    if (is_new || now_ns - audit->trouble_told_ns >= TROUBLE_LOG_NS) {
        audit->trouble_told_ns = now_ns;
        amb_error("log.audit: %s cannot be written: %s; commands are refused meanwhile",
                  audit->path, strerrordesc_np(error));
    }
}

static int append(struct amb_audit *audit, const struct amb_audit_entry *entry, bool is_lasting)
{
    char line[AMB_AUDIT_LINE_MAX];
    size_t len = amb_audit_entry_format(entry, line);
    return len == 0 ? ENOMEM : amb_audit_file_append(&audit->file, line, len, is_lasting);
}

/* Before the next line: how many are missing. */
static void tell_lost(struct amb_audit *audit)
{
    uint64_t lost = atomic_load_explicit(&audit->lost, memory_order_relaxed);
    if (lost == audit->lost_told) {
        return;
    }
    const struct amb_audit_entry entry = {.event = AMB_AUDIT_LOST,
                                          .time_ns = amb_clock_realtime_ns(),
                                          .count = lost - audit->lost_told};
    if (append(audit, &entry, false) == 0) {
        audit->lost_told = lost;
        atomic_fetch_add_explicit(&audit->lines, 1, memory_order_relaxed);
    }
}

static int write_entry(struct amb_audit *audit, const struct amb_audit_entry *entry,
                       bool is_lasting)
{
    if (audit->file.fd < 0) {
        return 0; /* There is no log any more. */
    }
    tell_lost(audit);
    int error = append(audit, entry, is_lasting);
    note_trouble(audit, error, amb_clock_monotonic_ns());
    if (error == 0) {
        atomic_fetch_add_explicit(&audit->lines, 1, memory_order_relaxed);
    }
    return error;
}

/* May it wait for others of its kind? Commands never do, and logins do where there are many. */
static bool may_fold(struct amb_audit *audit, const struct amb_audit_entry *entry, int64_t now_ns)
{
    if (entry->event == AMB_AUDIT_REFUSED || entry->event == AMB_AUDIT_VIEW) {
        return true;
    }
    if (entry->event != AMB_AUDIT_LOGIN) {
        return false;
    }
    int64_t second = now_ns / AMB_NS_PER_SEC;
    audit->logins = second == audit->login_second ? audit->logins + 1 : 1;
    audit->login_second = second;
    return audit->logins > AMB_AUDIT_LOGINS_MAX;
}

static void entry_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_audit *audit = owner;
    struct noted *noted = AMB_CONTAINER_OF(mail, struct noted, mail);
    struct amb_audit_answer *answer = noted->answer;
    int64_t now_ns = amb_clock_monotonic_ns();
    int error = 0;
    if (answer != NULL || !may_fold(audit, &noted->entry, now_ns) ||
        amb_audit_fold_take(&audit->folds, &noted->entry, now_ns)) {
        error = write_entry(audit, &noted->entry, answer != NULL);
    }
    atomic_fetch_sub_explicit(&audit->waiting_count, 1, memory_order_relaxed);
    free(noted);
    if (answer != NULL) {
        answer->trouble = error;
        amb_mail_post(answer->to, &answer->mail, answer->fn);
    }
}

static void write_due(struct amb_audit *audit, int64_t now_ns)
{
    const struct amb_audit_entry *due;
    while ((due = amb_audit_fold_due(&audit->folds, now_ns)) != NULL) {
        (void)write_entry(audit, due, false);
    }
}

/* ---- files ---- */

static void take_file(struct amb_audit *audit, const struct amb_audit_file *file)
{
    amb_audit_file_close(&audit->file);
    audit->file = *file;
    atomic_store_explicit(&audit->trouble, 0, memory_order_relaxed);
}

static void change_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_audit *audit = owner;
    struct change *change = AMB_CONTAINER_OF(mail, struct change, mail);
    free(audit->path);
    audit->path = change->path;
    take_file(audit, &change->file);
    free(change);
}

static void reopening_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_audit *audit = owner;
    struct amb_audit_file file;
    char why[AMB_AUDIT_WHY_MAX];
    free(mail);
    if (audit->file.fd < 0) {
        return;
    }
    if (amb_audit_file_open(audit->path, &file, why) != AMB_OK) {
        amb_error("log.audit: %s; the old file is kept", why);
        return;
    }
    amb_info("log.audit: %s is opened again", audit->path);
    take_file(audit, &file);
}

void amb_audit_use(struct amb_audit *audit, const struct amb_audit_file *file, const char *path)
{
    amb_assert(audit->is_running);
    struct change *change = malloc(sizeof(*change));
    char *copy = strdup(path);
    if (change == NULL || copy == NULL) {
        struct amb_audit_file unused = *file;
        amb_error("log.audit: no memory: the former file is kept");
        amb_audit_file_close(&unused);
        free(change);
        free(copy);
        return;
    }
    change->file = *file;
    change->path = copy;
    amb_mail_post(&audit->inbox, &change->mail, change_arrived);
}

void amb_audit_reopen(struct amb_audit *audit)
{
    struct amb_mail *mail = audit->is_running ? malloc(sizeof(*mail)) : NULL;
    if (mail != NULL) {
        amb_mail_post(&audit->inbox, mail, reopening_arrived);
    } else if (audit->is_running) {
        amb_error("log.audit: no memory to open it again");
    }
}

/* ---- the thread ---- */

static int timeout_ms(const struct amb_audit *audit)
{
    int64_t next_ns = amb_audit_fold_next_ns(&audit->folds);
    if (next_ns == INT64_MAX) {
        return -1;
    }
    int64_t left_ns = next_ns - amb_clock_monotonic_ns();
    return left_ns <= 0 ? 0 : (int)(left_ns / AMB_NS_PER_MS) + 1;
}

static void *audit_main(void *arg)
{
    struct amb_audit *audit = arg;
    (void)pthread_setname_np(pthread_self(), "amb-audit");
    while (!audit->is_stopping) {
        bool may_sleep = amb_inbox_arm(&audit->inbox);
        struct pollfd bell = {.fd = audit->inbox.bell, .events = POLLIN};
        (void)poll(&bell, 1, may_sleep ? timeout_ms(audit) : 0);
        amb_inbox_disarm(&audit->inbox, true);
        (void)amb_inbox_run(&audit->inbox);
        write_due(audit, amb_clock_monotonic_ns());
    }
    write_due(audit, INT64_MAX);
    return NULL;
}

enum amb_status amb_audit_start(struct amb_audit *audit, const struct amb_audit_file *file,
                                const char *path)
{
    amb_assert(!audit->is_running);
    *audit = (struct amb_audit){.file = {.fd = -1}, .path = strdup(path)};
    enum amb_status status =
        audit->path == NULL ? AMB_ENOMEM : amb_inbox_init(&audit->inbox, audit);
    if (status != AMB_OK) {
        free(audit->path);
        audit->path = NULL;
        return status;
    }
    audit->file = *file;
    int error = pthread_create(&audit->thread, NULL, audit_main, audit);
    if (error != 0) {
        amb_inbox_fini(&audit->inbox);
        free(audit->path);
        audit->path = NULL;
        return amb_status_from_errno(error);
    }
    audit->is_running = true;
    return AMB_OK;
}

static void stop_arrived(struct amb_mail *mail, void *owner)
{
    (void)mail;
    ((struct amb_audit *)owner)->is_stopping = true;
}

void amb_audit_stop(struct amb_audit *audit)
{
    if (!audit->is_running) {
        return;
    }
    amb_mail_post(&audit->inbox, &audit->stop, stop_arrived);
    (void)pthread_join(audit->thread, NULL);
    (void)amb_inbox_run(&audit->inbox); /* Mail that came after the stop. */
    audit->is_running = false;
    amb_inbox_fini(&audit->inbox);
    amb_audit_file_close(&audit->file);
    free(audit->path);
    audit->path = NULL;
}

bool amb_audit_note(struct amb_audit *audit, const struct amb_audit_entry *entry,
                    struct amb_audit_answer *answer)
{
    bool has_room =
        audit->is_running &&
        atomic_load_explicit(&audit->waiting_count, memory_order_relaxed) < AMB_AUDIT_QUEUE_MAX;
    struct noted *noted = has_room ? malloc(sizeof(*noted)) : NULL;
    if (noted == NULL) {
        atomic_fetch_add_explicit(&audit->lost, 1, memory_order_relaxed);
        return false;
    }
    noted->entry = *entry;
    noted->answer = answer;
    atomic_fetch_add_explicit(&audit->waiting_count, 1, memory_order_relaxed);
    amb_mail_post(&audit->inbox, &noted->mail, entry_arrived);
    return true;
}
