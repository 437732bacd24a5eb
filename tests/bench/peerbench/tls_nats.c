/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NATS over TLS: the harness's backend with another server and another way to connect. build.sh
 * puts this file in the place of backend_nats.c, which is a part of it.
 * Threads and Memory: those of the harness's file.
 */
#include "tests/bench/peerbench/tls.h"
#include <backend_nats.c>

static pid_t start_tls(const struct pb_opts *opts)
{
    char port[16];
    struct tls_path conf = tls_path(opts, "nats.conf");
    (void)snprintf(port, sizeof(port), "%d", opts->port);
    FILE *file = tls_make(opts) ? fopen(conf.text, "w") : NULL;
    if (file == NULL) {
        return -1;
    }
    (void)fprintf(file,
                  "max_payload: 67108864\nmax_pending: 2147483647\nwrite_deadline: \"60s\"\n"
                  "tls {\n  cert_file: \"%s\"\n  key_file: \"%s\"\n}\n",
                  tls_path(opts, "server.pem").text, tls_path(opts, "server.key").text);
    (void)fclose(file);
    pid_t pid = pb_spawn(
        opts, (char *[]){"nats-server", "-a", "127.0.0.1", "-p", port, "-c", conf.text, NULL});
    return pid > 0 && pb_wait_listen(opts->port, NULL) == 0 ? pid : -1;
}

static natsStatus set_tls(natsOptions *options, const struct pb_opts *opts)
{
    natsStatus status = natsOptions_SetSecure(options, true);
    if (status == NATS_OK) {
        status = natsOptions_LoadCATrustedCertificates(options, tls_path(opts, "ca.pem").text);
    }
    if (status == NATS_OK) {
        status = natsOptions_SetExpectedHostname(options, TLS_NAME);
    }
    return status == NATS_OK ? natsOptions_SetCipherSuites(options, TLS_SUITE) : status;
}

/* As open_conn of the harness's file, with the same settings. */
static natsStatus dial_tls(struct conn *c, const struct pb_opts *opts, const char *who)
{
    char url[64];
    natsOptions *options = NULL;
    natsStatus status = natsOptions_Create(&options);
    if (status != NATS_OK) {
        return status;
    }
    (void)snprintf(url, sizeof(url), "nats://127.0.0.1:%d", opts->port);
    (void)natsOptions_SetURL(options, url);
    (void)natsOptions_SetName(options, who);
    (void)natsOptions_SetAllowReconnect(options, false);
    (void)natsOptions_SetSendAsap(options, opts->latency || opts->size >= (64u << 10));
    if (opts->size >= (1u << 20)) {
        (void)natsOptions_SetIOBufSize(options, 1 << 20);
    }
    status = set_tls(options, opts);
    if (status == NATS_OK) {
        status = natsConnection_Connect(&c->nc, options);
    }
    natsOptions_Destroy(options);
    return status;
}

static natsStatus subscribe(struct conn *c, const char *topic)
{
    natsStatus status = natsConnection_SubscribeSync(&c->sub, c->nc, topic);
    if (status == NATS_OK) {
        status = natsSubscription_SetPendingLimits(c->sub, -1, -1);
    }
    return status == NATS_OK ? natsConnection_Flush(c->nc) : status;
}

static void *open_tls(const struct pb_opts *opts, const char *who, const char *pub, const char *sub)
{
    struct conn *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return NULL;
    }
    natsStatus status = dial_tls(c, opts, who);
    if (status == NATS_OK && sub != NULL) {
        status = subscribe(c, sub);
    }
    if (status != NATS_OK) {
        pb_warn("nats-tls: %s", natsStatus_GetText(status));
        return NULL;
    }
    c->topic = pub;
    c->cap = opts->size;
    c->buf = pub != NULL ? pb_buffer(c->cap) : NULL;
    return c;
}

const struct pb_backend pb_nats_tls = {
    .name = "nats-tls",
    .transport = "tls",
    .max_size = 64u << 20,
    .process = "nats-server",
    .version = version,
    .broker_start = start_tls,
    .open = open_tls,
    .loan = loan,
    .send = send_buf,
    .poll = poll_conn,
    .close = close_conn,
};
