/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ambroker as a backend of peerbench (README.md beside this file). brokerd is a process of its own
 * with its default settings; clients use the public library.
 *
 *   ambroker        ring; amb_pub_send from memory of the program, amb_next_many
 *   ambroker-lease  ring; amb_lease, written in place, amb_lease_commit
 *   ambroker-tcp    the stream link
 *   ambroker-tls    the same over TLS, with a token
 *   ambroker-ucx    the ucx link over TCP on loopback
 *
 * Threads: each process of the harness opens its own connection, after fork.
 * Environment: AMB_BENCH_BROKERD is another brokerd; AMBROKER_* configures it, as always.
 */
/* The header of the harness, in whose folder this is built. */
#include <peerbench.h>

#include "tests/bench/peerbench/tls.h"

#include <amb/amb.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANY 256u
#define OPEN_NS (20 * AMB_SEC)
#define SEND_NS (30 * AMB_SEC)
#define ARGUMENTS_MAX 16
#define OPTION_MAX 224

enum path {
    PATH_RING,
    PATH_STREAM,
    PATH_TLS,
    PATH_UCX
};

struct conn {
    struct amb_conn *amb;
    struct amb_pub *pub;
    struct amb_sub *sub;
    bool is_lease;
    void *buffer; /* of plain publishing, grown to what was asked for */
    size_t buffer_size;
#ifdef HAVE_AMB_LEASE
    struct amb_lease *lease;
#endif
};

static void version(char *buf, size_t len)
{
    (void)snprintf(buf, len, "ambroker %s", amb_version());
}

static void say(const char *what, const struct amb_conn *amb, enum amb_status status)
{
    struct amb_error error = amb_last_error(amb);
    pb_warn("ambroker: %s: %s%s%s", what, amb_strerror(status), error.text[0] != '\0' ? ": " : "",
            error.text);
}

/* ---- the broker ---- */

/* `listen` is a URL; more are options of brokerd, up to NULL. */
static pid_t start(const struct pb_opts *opts, char *listen, char *const *more)
{
    const char *program = getenv("AMB_BENCH_BROKERD");
    char *argv[ARGUMENTS_MAX + 1] = {(char *)(program != NULL ? program : AMB_BROKERD), "--dev",
                                     "--listen", listen};
    for (size_t count = 4; *more != NULL && count < ARGUMENTS_MAX; count++) {
        argv[count] = *more++;
    }
    return pb_spawn(opts, argv);
}

static pid_t start_port(const struct pb_opts *opts, const char *scheme, char *const *more)
{
    char url[64];
    (void)snprintf(url, sizeof(url), "%s://127.0.0.1:%d", scheme, opts->port);
    pid_t pid = start(opts, url, more);
    return pid > 0 && pb_wait_listen(opts->port, NULL) == 0 ? pid : -1;
}

static pid_t start_unix(const struct pb_opts *opts)
{
    char url[sizeof(opts->dir) + 32];
    (void)snprintf(url, sizeof(url), "unix://%s/broker.sock", opts->dir);
    pid_t pid = start(opts, url, (char *[]){NULL});
    return pid > 0 && pb_wait_listen(opts->port, url + strlen("unix://")) == 0 ? pid : -1;
}

static pid_t start_tcp(const struct pb_opts *opts)
{
    return start_port(opts, "tcp", (char *[]){NULL});
}

/* A token of this run, in a file that nobody else can read. */
static bool make_token(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (file == NULL) {
        return false;
    }
    (void)fprintf(file, "token-of-peerbench-%d\n", (int)getpid());
    return fclose(file) == 0;
}

static pid_t start_tls(const struct pb_opts *opts)
{
    char certificate[OPTION_MAX], key[OPTION_MAX], token[OPTION_MAX];
    struct tls_path token_path = tls_path(opts, "token");
    if (!tls_make(opts) || !make_token(token_path.text)) {
        return -1;
    }
    (void)snprintf(certificate, sizeof(certificate), "tls.certificate=%s",
                   tls_path(opts, "server.pem").text);
    (void)snprintf(key, sizeof(key), "tls.key=%s", tls_path(opts, "server.key").text);
    (void)snprintf(token, sizeof(token), "auth.token_file=%s", token_path.text);
    return start_port(opts, "tls", (char *[]){"-o", certificate, "-o", key, "-o", token, NULL});
}

/* ---- a connection ---- */

static void close_conn(void *arg)
{
    struct conn *c = arg;
    if (c->sub != NULL) {
        (void)amb_sub_close(c->sub, AMB_SEC);
    }
    if (c->pub != NULL) {
        (void)amb_pub_close(c->pub, AMB_SEC);
    }
    (void)amb_close(c->amb, AMB_SEC);
    free(c);
}

static enum amb_status open_topics(struct conn *c, const char *pub, const char *sub)
{
    enum amb_status status = AMB_OK;
    if (pub != NULL) {
        status = amb_pub_open(c->amb, pub, NULL, &c->pub);
    }
    if (status == AMB_OK && sub != NULL) {
        /* Block instead of dropping, as the other backends are set up. */
        status = amb_subscribe(
            c->amb, sub, AMB_SUB(.slow = AMB_SLOW_BLOCK, .slow_block_ns = 60 * AMB_SEC), &c->sub);
    }
    return status;
}

static void *open_conn(const struct pb_opts *opts, const char *who, const char *pub,
                       const char *sub, enum path path, bool is_lease)
{
    char url[sizeof(opts->dir) + 64];
    struct amb_error error = {.status = AMB_OK};
    struct conn *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return NULL;
    }
    c->is_lease = is_lease;
    if (path == PATH_RING) {
        (void)snprintf(url, sizeof(url), "unix://%s/broker.sock?link=ring", opts->dir);
    } else {
        (void)snprintf(url, sizeof(url), "%s://127.0.0.1:%d?link=%s",
                       path == PATH_TLS ? "tls" : "tcp", opts->port,
                       path == PATH_UCX ? "ucx" : "stream");
    }
    struct tls_path ca = tls_path(opts, "ca.pem"), token = tls_path(opts, "token");
    enum amb_status status =
        amb_connect(url,
                    AMB_OPTIONS(.name = who, .error = &error, .connect_timeout_ns = OPEN_NS,
                                .ca = path == PATH_TLS ? ca.text : NULL,
                                .credentials = path == PATH_TLS ? token.text : NULL,
                                .trusted_network = path == PATH_UCX ? "lo" : NULL),
                    &c->amb);
    if (status != AMB_OK) {
        pb_warn("ambroker: connect %s: %s: %s", url, amb_strerror(status), error.text);
        free(c);
        return NULL;
    }
    status = open_topics(c, pub, sub);
    if (status != AMB_OK) {
        say("open", c->amb, status);
        close_conn(c);
        return NULL;
    }
    return c;
}

static void *open_ring(const struct pb_opts *opts, const char *who, const char *pub,
                       const char *sub)
{
    return open_conn(opts, who, pub, sub, PATH_RING, false);
}

static void *open_lease(const struct pb_opts *opts, const char *who, const char *pub,
                        const char *sub)
{
    return open_conn(opts, who, pub, sub, PATH_RING, true);
}

static void *open_stream(const struct pb_opts *opts, const char *who, const char *pub,
                         const char *sub)
{
    return open_conn(opts, who, pub, sub, PATH_STREAM, false);
}

static void *open_tls(const struct pb_opts *opts, const char *who, const char *pub, const char *sub)
{
    return open_conn(opts, who, pub, sub, PATH_TLS, false);
}

static void *open_ucx(const struct pb_opts *opts, const char *who, const char *pub, const char *sub)
{
    return open_conn(opts, who, pub, sub, PATH_UCX, false);
}

/* ---- publish ---- */

#ifdef HAVE_AMB_LEASE
static void *loan_lease(struct conn *c, size_t len)
{
    enum amb_status status = amb_lease(c->pub, len, SEND_NS, &c->lease);
    if (status != AMB_OK) {
        say("lease", c->amb, status);
        return NULL;
    }
    return amb_lease_data(c->lease);
}

static enum amb_status commit(struct conn *c)
{
    struct amb_lease *lease = c->lease;
    c->lease = NULL;
    return amb_lease_commit(lease, NULL, NULL);
}
#else
static void *loan_lease(struct conn *c, size_t len)
{
    (void)c;
    (void)len;
    return NULL;
}

static enum amb_status commit(struct conn *c)
{
    (void)c;
    return AMB_ENOTSUP;
}
#endif

static void *loan(void *arg, size_t len)
{
    struct conn *c = arg;
    if (c->is_lease) {
        return loan_lease(c, len);
    }
    if (len > c->buffer_size) {
        c->buffer = pb_buffer(len);
        c->buffer_size = c->buffer != NULL ? len : 0;
    }
    return c->buffer;
}

static int send_buf(void *arg, void *buf, size_t len)
{
    struct conn *c = arg;
    enum amb_status status = c->is_lease ? commit(c) : amb_pub_send(c->pub, buf, len, SEND_NS);
    if (status != AMB_OK) {
        say("send", c->amb, status);
        return -1;
    }
    return 0;
}

static int flush(void *arg)
{
    struct conn *c = arg;
    enum amb_status status = amb_pub_flush(c->pub, 0, AMB_NOWAIT);
    if (status != AMB_OK && status != AMB_EAGAIN && status != AMB_ETIMEDOUT) {
        say("flush", c->amb, status);
        return -1;
    }
    return 0;
}

/* ---- receive ---- */

static int poll_conn(void *arg, int timeout_ms, pb_on_msg *fn, void *fn_arg)
{
    struct conn *c = arg;
    struct amb_msg *msgs[MANY];
    size_t count = 0;
    enum amb_status status = amb_next_many(c->sub, timeout_ms * AMB_MS, msgs, MANY, &count);
    if (status == AMB_ETIMEDOUT || status == AMB_EAGAIN) {
        return 0;
    }
    if (status != AMB_OK) {
        say("receive", c->amb, status);
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        fn(fn_arg, amb_msg_data(msgs[i]), amb_msg_size(msgs[i]));
        amb_msg_release(msgs[i]);
    }
    return (int)count;
}

const struct pb_backend pb_ambroker = {
    .name = "ambroker",
    .transport = "shm",
    .process = "brokerd",
    .version = version,
    .broker_start = start_unix,
    .open = open_ring,
    .loan = loan,
    .send = send_buf,
    .flush = flush,
    .poll = poll_conn,
    .close = close_conn,
};

const struct pb_backend pb_ambroker_lease = {
    .name = "ambroker-lease",
    .transport = "shm",
#ifndef HAVE_AMB_LEASE
    .max_size = 1, /* this libamb has no leases: every cell reads `cannot` */
#endif
    .process = "brokerd",
    .version = version,
    .broker_start = start_unix,
    .open = open_lease,
    .loan = loan,
    .send = send_buf,
    .flush = flush,
    .poll = poll_conn,
    .close = close_conn,
};

const struct pb_backend pb_ambroker_tcp = {
    .name = "ambroker-tcp",
    .transport = "tcp",
    .process = "brokerd",
    .version = version,
    .broker_start = start_tcp,
    .open = open_stream,
    .loan = loan,
    .send = send_buf,
    .flush = flush,
    .poll = poll_conn,
    .close = close_conn,
};

const struct pb_backend pb_ambroker_tls = {
    .name = "ambroker-tls",
    .transport = "tls",
    .process = "brokerd",
    .version = version,
    .broker_start = start_tls,
    .open = open_tls,
    .loan = loan,
    .send = send_buf,
    .flush = flush,
    .poll = poll_conn,
    .close = close_conn,
};

const struct pb_backend pb_ambroker_ucx = {
    .name = "ambroker-ucx",
    .transport = "tcp",
    .process = "brokerd",
    .version = version,
    .broker_start = start_tcp,
    .open = open_ucx,
    .loan = loan,
    .send = send_buf,
    .flush = flush,
    .poll = poll_conn,
    .close = close_conn,
};
