/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mosquitto over TLS: the harness's backend with another listener and another way to connect.
 * build.sh puts this file in the place of backend_mosquitto.c, which is a part of it.
 * Threads and Memory: those of the harness's file.
 */
#include "tests/bench/peerbench/tls.h"
#include <backend_mosquitto.c>

static pid_t start_tls(const struct pb_opts *opts)
{
    struct tls_path conf = tls_path(opts, "mosquitto.conf");
    FILE *file = tls_make(opts) ? fopen(conf.text, "w") : NULL;
    if (file == NULL) {
        return -1;
    }
    (void)fprintf(file,
                  "listener %d 127.0.0.1\ncertfile %s\nkeyfile %s\ntls_version tlsv1.3\n"
                  "ciphers_tls1.3 " TLS_SUITE "\n"
                  "allow_anonymous true\nset_tcp_nodelay true\nmax_queued_messages 0\n"
                  "max_queued_bytes 0\npersistence false\nuser root\nlog_type error\n",
                  opts->port, tls_path(opts, "server.pem").text, tls_path(opts, "server.key").text);
    (void)fclose(file);
    pid_t pid = pb_spawn(opts, (char *[]){"mosquitto", "-c", conf.text, NULL});
    return pid > 0 && pb_wait_listen(opts->port, NULL) == 0 ? pid : -1;
}

static int dial_tls(struct conn *c, const struct pb_opts *opts)
{
    int rc = mosquitto_tls_set(c->m, tls_path(opts, "ca.pem").text, NULL, NULL, NULL, NULL);
    if (rc == MOSQ_ERR_SUCCESS) {
        rc = mosquitto_tls_opts_set(c->m, 1, "tlsv1.3", NULL);
    }
    if (rc == MOSQ_ERR_SUCCESS) {
        rc = mosquitto_connect(c->m, "127.0.0.1", opts->port, 3600);
    }
    for (int i = 0; rc == MOSQ_ERR_SUCCESS && !c->subscribed && i < 500; i++) {
        rc = mosquitto_loop(c->m, 10, 1);
    }
    return rc;
}

/* As open_conn of the harness's file, with the same settings. */
static void *open_tls(const struct pb_opts *opts, const char *who, const char *pub, const char *sub)
{
    struct conn *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return NULL;
    }
    mosquitto_lib_init();
    c->pub = pub;
    c->sub = sub;
    c->m = mosquitto_new(who, true, c);
    mosquitto_int_option(c->m, MOSQ_OPT_TCP_NODELAY, 1);
    mosquitto_message_callback_set(c->m, on_message);
    mosquitto_subscribe_callback_set(c->m, on_subscribe);
    mosquitto_connect_callback_set(c->m, on_connect);
    int rc = dial_tls(c, opts);
    if (rc != MOSQ_ERR_SUCCESS || !c->subscribed) {
        pb_warn("mosquitto-tls: %s", mosquitto_strerror(rc));
        return NULL;
    }
    c->buf = pub != NULL ? pb_buffer(opts->size) : NULL;
    return c;
}

/* MQTT ends at 256 MiB - 1. */
const struct pb_backend pb_mosquitto_tls = {
    .name = "mosquitto-tls",
    .transport = "tls",
    .max_size = 268435455,
    .process = "mosquitto",
    .version = version,
    .broker_start = start_tls,
    .open = open_tls,
    .loan = loan,
    .send = send_buf,
    .poll = poll_conn,
    .close = close_conn,
};
