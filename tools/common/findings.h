/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings of the doctor on standard output, of brokerd and of broker-ctl alike.
 *
 *   warning  descriptors: 1024 descriptors may be open, which is enough for 392 clients
 *            fix: LimitNOFILE= in the unit, --ulimit nofile= of the container, or ulimit -n
 *            see: docs/doctor.md#descriptors-few
 *
 * Threads: any. Memory: the caller's references.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum amb_findings_form {
    AMB_FINDINGS_TEXT,
    AMB_FINDINGS_JSON, /* {"doctor": [...]} on one line */
    AMB_FINDINGS_JSONL,
    AMB_FINDINGS_CSV,
};

/* Rows of {check, state, finding, fix, id, link}. As text the worst come first, and those that are
 * well, a line each, last; characters that would drive a terminal are shown as '.'. has_head: of
 * CSV. */
void amb_findings_print(json_t *rows, enum amb_findings_form form, bool has_head, FILE *out);
