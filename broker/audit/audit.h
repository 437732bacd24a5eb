/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log (`log.audit`): a thread that writes entries, for the disk may be slow. An entry
 * that somebody waits for is on the disk, or is known not to be, when its answer comes.
 *
 *   control ── entry ──► audit: fold, format, append ── answer ──► control
 *
 * Threads: start, use and stop where the broker does so; notes from any. Memory: an allocation for
 * each entry under way, at most AMB_AUDIT_QUEUE_MAX.
 */
#pragma once

#include "broker/audit/audit_entry.h"
#include "broker/audit/audit_file.h"
#include "broker/audit/audit_fold.h"
#include "broker/base/mail.h"
#include "wire/base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define AMB_AUDIT_QUEUE_MAX 4096u
#define AMB_AUDIT_LOGINS_MAX 50u /* a second that have lines of their own; more are folded */

struct amb_audit {
    struct amb_inbox inbox;
    struct amb_mail stop;
    pthread_t thread;
    bool is_running;
    _Atomic uint32_t waiting_count; /* entries that are posted */
    _Atomic int trouble;            /* errno of the last line; 0: it was written */
    /* The thread's own. */
    struct amb_audit_file file;
    struct amb_audit_folds folds;
    char *path;
    uint64_t lost_told;
    int64_t trouble_told_ns, login_second;
    unsigned logins; /* in that second */
    bool is_stopping;
    /* counters: lines that are written, entries that are not */
    _Atomic uint64_t lines, lost;
};

/* A wish to know whether an entry is on the disk. Its mail comes to `to`, whatever happens. */
struct amb_audit_answer {
    struct amb_mail mail;
    struct amb_inbox *to;
    amb_mail_fn fn;
    int trouble; /* errno; 0: it is */
};

/* Takes the file. path: copied, for the next time that the file is opened. ENOMEM, ELIMIT: the file
 * stays the caller's. */
AMB_MUST_CHECK enum amb_status amb_audit_start(struct amb_audit *audit,
                                               const struct amb_audit_file *file, const char *path);
/* Another file, or none (path ""), from here on; takes it, also without memory. */
void amb_audit_use(struct amb_audit *audit, const struct amb_audit_file *file, const char *path);
/* Opens the file of its path again: the old one may have another name by now. Where that fails, the
 * old one is kept. */
void amb_audit_reopen(struct amb_audit *audit);
/* Writes what is there, and ends the thread. Harmless on zeros, and twice. */
void amb_audit_stop(struct amb_audit *audit);

/* A copy goes into the log. answer: NULL, or embedded in an object of the caller's. False: there is
 * no room or no memory; it is counted as lost, and no answer comes. */
bool amb_audit_note(struct amb_audit *audit, const struct amb_audit_entry *entry,
                    struct amb_audit_answer *answer);
