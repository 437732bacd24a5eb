/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways of broker-ctl sub with one message: print it, save it, hash it; and the counts of all.
 * Threads: one. Memory: borrows messages for the call only.
 */
#pragma once

#include "tools/ctl/ctl.h"

#include <jansson.h>
#include <stdio.h>

#define AMB_DELIVER_PATHS 8u

struct amb_deliver_options {
    bool is_json;       /* one line of JSON a message */
    bool wants_payload; /* else the payload itself on standard output, and a line feed */
    bool wants_sha256;  /* "DIGEST  NAME", as sha256sum reads it */
    bool is_lazy;       /* instead of the payload its message's header, and, if */
    bool wants_range;   /* ... a part of it */
    uint64_t offset;
    size_t len;
    const char *out_dir; /* NULL, or each message into a file of its own there */
};

struct amb_deliver {
    struct amb_deliver_options options;
    int dir_fd;
    bool is_terminal;
    struct evp_md_ctx_st *digest; /* EVP_MD_CTX */

    uint64_t msgs, bytes, first_bytes, lost;
    bool is_lost_unknown; /* the broker restarted: nobody can know how many */
    int64_t first_ns, last_ns;
    struct {
        const char *name; /* static text of libamb */
        uint64_t count;
    } paths[AMB_DELIVER_PATHS];
};

/* Makes out_dir if it is not there. Says what failed; amb_deliver_fini is due in any case. */
enum amb_exit amb_deliver_init(struct amb_deliver *d, const struct amb_deliver_options *options);
/* Says what failed. */
enum amb_exit amb_deliver_message(struct amb_deliver *d, struct amb_msg *msg, int64_t now_ns);
/* Counts, rates, losses and paths; a new reference. */
json_t *amb_deliver_stats(const struct amb_deliver *d);
void amb_deliver_fini(struct amb_deliver *d);
