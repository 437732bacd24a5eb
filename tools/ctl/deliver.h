/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways of broker-ctl sub with one message: print it, save it, hash it; and the counts of all.
 * Threads: one. Memory: borrows messages for the call only.
 */
#pragma once

#include "tools/ctl/ctl.h"
#include "tools/ctl/meter.h"

#include <jansson.h>
#include <stdio.h>

#define AMB_DELIVER_PATHS 8u

/* A message on standard output. */
enum amb_deliver_form {
    AMB_DELIVER_NOT,
    AMB_DELIVER_PAYLOAD,
    AMB_DELIVER_VERBOSE, /* its topic, too */
    AMB_DELIVER_HEADER,  /* of a lazy one; the payload is not here */
    AMB_DELIVER_FORMAT,  /* as `format` says */
    AMB_DELIVER_JSON,    /* one line */
};

struct amb_deliver_options {
    enum amb_deliver_form form;
    bool is_raw;       /* no line feed behind it */
    bool wants_sha256; /* "DIGEST  NAME", as sha256sum reads it */
    bool is_lazy;      /* payloads are not here */
    bool wants_range;  /* behind a header a part of the payload: */
    bool wants_meter;  /* a row each second */
    bool has_json_payload;
    const char *format;
    size_t payload_max; /* bytes of it in JSON */
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
    struct amb_meter meter;
    struct {
        const char *name; /* static text of libamb */
        uint64_t count;
    } paths[AMB_DELIVER_PATHS];
};

/* Makes out_dir if it is not there. Says what failed; amb_deliver_fini is due in any case. */
enum amb_exit amb_deliver_init(struct amb_deliver *d, const struct amb_deliver_options *options);
/* Says what failed. */
enum amb_exit amb_deliver_message(struct amb_deliver *d, struct amb_msg *msg, int64_t now_ns);
/* The meter's row, once it is due; NULL: not yet. A new reference. */
json_t *amb_deliver_meter(struct amb_deliver *d, int64_t now_ns, bool is_last);
/* Counts, rates, losses and paths; a new reference. */
json_t *amb_deliver_stats(const struct amb_deliver *d);
void amb_deliver_fini(struct amb_deliver *d);
