/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A browser's request to the port that `broker-ctl page` opens. Any local user can reach that port,
 * so a request needs the key of the printed address, which works once, or the cookie it gave. And
 * it names the port's own host, so that the name of another site cannot lead here.
 *
 * Threads: any. Memory: pure functions, but for the keys.
 */
#pragma once

#include "wire/auth/visits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_VISITOR_HEAD_MAX 8192u
#define AMB_VISITOR_ANSWER_MAX 1024u

enum amb_visitor {
    AMB_VISITOR_WAITS,    /* its head is not whole */
    AMB_VISITOR_ANSWERED, /* `answer` is all that it gets */
    AMB_VISITOR_FORWARD,  /* its bytes go to the broker */
};

/* head: ends with a NUL. now_ns: monotonic; now_s: since 1970. */
enum amb_visitor amb_visitor_judge(struct amb_visits *visits, const char *head, size_t len,
                                   uint16_t port, int64_t now_ns, int64_t now_s,
                                   char answer[AMB_VISITOR_ANSWER_MAX]);
/* The answer to one that would be forwarded, while the broker is not there. A stream of events is
 * an empty one then, so that a browser comes again. */
void amb_visitor_excuse(const char *head, char answer[AMB_VISITOR_ANSWER_MAX]);
