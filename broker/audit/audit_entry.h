/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thing that the audit log tells, and its line: one JSON object.
 *
 *   {"time":"2026-11-27T05:06:07.123Z","event":"refused","user":"cam7","tenant":"plant",
 *    "by":"key","from":"10.0.0.7:51234","client":12,"name":"broker-ctl",
 *    "what":"publish cam.8.x","result":"refused","why":"no role of this user allows it"}
 *
 * Parts that are not known are left out. "count" tells how many more of the same there were since,
 * and "mixed" that only their user and address are the same.
 *
 * Threads: any. Memory: fixed texts; longer ones are cut.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_AUDIT_WHAT_SIZE 448u
#define AMB_AUDIT_REASON_SIZE 320u
#define AMB_AUDIT_LINE_MAX 8192u /* each byte of a text may become six */

enum amb_audit_event {
    AMB_AUDIT_LOGIN,
    AMB_AUDIT_REFUSED, /* a login, a right or a command */
    AMB_AUDIT_VIEW,
    AMB_AUDIT_COMMAND,
    AMB_AUDIT_RELOAD,
    AMB_AUDIT_LOST, /* entries that could not be written: `count` */
};

struct amb_audit_entry {
    enum amb_audit_event event;
    int64_t time_ns;  /* since 1970 */
    uint64_t command; /* its number, so that its two lines are found; 0: none */
    uint64_t client;  /* 0: none */
    uint64_t count;   /* 0: it is one */
    bool is_mixed;
    const char *by;     /* static: the client's proof, or "signal"; NULL: none */
    const char *result; /* static; NULL: none */
    char user[160], tenant[80], address[64], name[64];
    char what[AMB_AUDIT_WHAT_SIZE];
    char why[AMB_AUDIT_REASON_SIZE];
};

/* The line with its end; its length, below AMB_AUDIT_LINE_MAX. 0: no memory. */
size_t amb_audit_entry_format(const struct amb_audit_entry *entry, char out[AMB_AUDIT_LINE_MAX]);
