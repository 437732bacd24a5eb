/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers to several questions at a time, of a broker or of its counters file. They are for
 * commands that go on when the broker does not answer.
 *
 *   --file F ─────────────────────────► the file
 *   a broker ── it does not answer ───► its counters file, where it is a local one
 *        └── the connection is lost ──► a new connection, at the next question
 *
 * Threads: the main thread only. Memory: the answers are the caller's references.
 */
#pragma once

#include "tools/ctl/ctl.h"

#include <jansson.h>
#include <stddef.h>

#define AMB_CTL_NOTE_MAX 320u

struct amb_ctl_asked {
    struct amb_ctl *ctl;
    const char *file;   /* NULL: of a broker */
    int64_t timeout_ns; /* how long one answer is waited for */
};

/* Connects, or looks at the file. Not OK: there is nobody to ask, which has been said. */
enum amb_exit amb_ctl_asked_begin(struct amb_ctl_asked *asked);
/* answers[i]: NULL where the broker has refused that one, which the note says. The note says, too,
 * whose file figures are of, and is else "". ESTOPPED: a signal. ECANCELED: ctl->is_interrupted has
 * ended it. Any other status: there are no answers, and the note says why. */
AMB_MUST_CHECK enum amb_status amb_ctl_ask_all(struct amb_ctl_asked *asked,
                                               const char *const *queries, size_t count,
                                               json_t **answers, char note[AMB_CTL_NOTE_MAX]);
