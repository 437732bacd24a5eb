/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redis pub/sub over TLS. Debian's hiredis has no TLS, so the bytes go through OpenSSL here; its
 * reader still takes replies apart. As over TCP, the publisher asks for no replies, gathers small
 * messages and sends large ones from where they lie. Records are full, and as many of them as are
 * there go to the socket by one call.
 *
 * Threads: each process of the harness opens its own connections. Memory: of a connection, grown
 * by nobody.
 */
#define _GNU_SOURCE
#include "tests/bench/peerbench/tls.h"

#include <peerbench.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECORD 16384u
#define BATCH (64u << 10)
#define SLACK 4096u               /* for a small message, or for the head of a large one */
#define WRITE_BUFFER (256l << 10) /* of records that one call writes */
#define READ_BUFFER (64u << 10)

struct line {
    int fd;
    SSL *ssl;
};

struct conn {
    struct line pub, sub;
    redisReader *reader;
    const char *topic;
    void *buf;
    char out[BATCH + SLACK];
    size_t used;
    bool is_asap;
    bool has_more; /* the last read has filled `in` */
    char in[READ_BUFFER];
};

static void version(char *buf, size_t len)
{
    char server[64] = "?";
    FILE *file = popen("redis-server --version | cut -d' ' -f3", "r");
    if (file != NULL) {
        if (fgets(server, sizeof(server), file) != NULL) {
            server[strcspn(server, "\n")] = 0;
        }
        (void)pclose(file);
    }
    (void)snprintf(buf, len, "redis-server %s; %s", server, OpenSSL_version(OPENSSL_VERSION));
}

static pid_t start_tls(const struct pb_opts *opts)
{
    struct tls_path conf = tls_path(opts, "redis.conf");
    FILE *file = tls_make(opts) ? fopen(conf.text, "w") : NULL;
    if (file == NULL) {
        return -1;
    }
    (void)fprintf(file,
                  "bind 127.0.0.1\nport 0\ntls-port %d\ntls-cert-file %s\ntls-key-file %s\n"
                  "tls-ca-cert-file %s\ntls-auth-clients no\ntls-protocols \"TLSv1.3\"\n"
                  "tls-ciphersuites " TLS_SUITE "\nsave \"\"\nappendonly no\ndir %s\n"
                  "client-output-buffer-limit pubsub 8gb 0 0\nprotected-mode no\n",
                  opts->port, tls_path(opts, "server.pem").text, tls_path(opts, "server.key").text,
                  tls_path(opts, "ca.pem").text, opts->dir);
    (void)fclose(file);
    pid_t pid = pb_spawn(opts, (char *[]){"redis-server", conf.text, NULL});
    return pid > 0 && pb_wait_listen(opts->port, NULL) == 0 ? pid : -1;
}

/* ---- a connection ---- */

static int say(const char *what)
{
    pb_warn("redis-tls: %s: %s", what, ERR_reason_error_string(ERR_peek_error()));
    return -1;
}

static int dial_tcp(const struct pb_opts *opts)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)opts->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        pb_warn("redis-tls: connect: %s", strerror(errno));
        return -1;
    }
    return fd;
}

static SSL *make_ssl(const struct pb_opts *opts)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = NULL;
    if (ctx != NULL && SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
        SSL_CTX_set_ciphersuites(ctx, TLS_SUITE) == 1 &&
        SSL_CTX_load_verify_file(ctx, tls_path(opts, "ca.pem").text) == 1) {
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_read_ahead(ctx, 1);
        SSL_CTX_set_default_read_buffer_len(ctx, READ_BUFFER);
        ssl = SSL_new(ctx);
    }
    SSL_CTX_free(ctx);
    if (ssl != NULL && SSL_set1_host(ssl, TLS_NAME) != 1) {
        SSL_free(ssl);
        ssl = NULL;
    }
    return ssl;
}

/* Records gather in a buffer in front of the socket until somebody flushes. */
static bool gather_writes(SSL *ssl)
{
    BIO *buffer = BIO_new(BIO_f_buffer()), *socket_bio = SSL_get_wbio(ssl);
    if (buffer == NULL || BIO_set_write_buffer_size(buffer, WRITE_BUFFER) != 1 ||
        BIO_up_ref(socket_bio) != 1) {
        return false;
    }
    SSL_set0_wbio(ssl, BIO_push(buffer, socket_bio));
    return true;
}

static int open_line(struct line *line, const struct pb_opts *opts)
{
    line->fd = dial_tcp(opts);
    line->ssl = line->fd < 0 ? NULL : make_ssl(opts);
    if (line->ssl == NULL || SSL_set_fd(line->ssl, line->fd) != 1 || SSL_connect(line->ssl) != 1) {
        return say("handshake");
    }
    return gather_writes(line->ssl) ? 0 : say("buffer");
}

static int write_all(struct line *line, const void *bytes, size_t len)
{
    size_t written;
    return len == 0 || SSL_write_ex(line->ssl, bytes, len, &written) == 1 ? 0 : say("write");
}

static int push(struct line *line)
{
    return BIO_flush(SSL_get_wbio(line->ssl)) == 1 ? 0 : say("flush");
}

static int send_text(struct line *line, const char *text)
{
    return write_all(line, text, strlen(text)) == 0 ? push(line) : -1;
}

static int open_sub(struct conn *c, const struct pb_opts *opts, const char *topic)
{
    char text[128];
    c->reader = redisReaderCreate();
    if (c->reader == NULL || open_line(&c->sub, opts) != 0) {
        return -1;
    }
    c->reader->maxbuf = 0; /* keep the read buffer between messages */
    (void)snprintf(text, sizeof(text), "SUBSCRIBE %s\r\n", topic);
    if (send_text(&c->sub, text) != 0) {
        return -1;
    }
    return fcntl(c->sub.fd, F_SETFL, O_NONBLOCK);
}

static void *open_tls(const struct pb_opts *opts, const char *who, const char *pub, const char *sub)
{
    (void)who;
    struct conn *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return NULL;
    }
    c->is_asap = opts->latency;
    if (sub != NULL && open_sub(c, opts, sub) != 0) {
        return NULL;
    }
    if (pub != NULL) {
        if (open_line(&c->pub, opts) != 0 || send_text(&c->pub, "CLIENT REPLY OFF\r\n") != 0) {
            return NULL;
        }
        c->topic = pub;
        c->buf = pb_buffer(opts->size);
    }
    return c;
}

static void close_line(struct line *line)
{
    SSL_free(line->ssl);
    if (line->ssl != NULL) {
        (void)close(line->fd);
    }
}

static void close_conn(void *arg)
{
    struct conn *c = arg;
    close_line(&c->pub);
    close_line(&c->sub);
    if (c->reader != NULL) {
        redisReaderFree(c->reader);
    }
    free(c);
}

/* ---- publish ---- */

static void *loan(void *arg, size_t len)
{
    (void)len;
    return ((struct conn *)arg)->buf;
}

static int flush(void *arg)
{
    struct conn *c = arg;
    size_t used = c->used;
    c->used = 0;
    if (used == 0) {
        return 0;
    }
    return write_all(&c->pub, c->out, used) == 0 ? push(&c->pub) : -1;
}

/* A large one: what stands before it fills a record together with its first bytes, and whole
 * records follow. Its last bytes and the line's end are the last record. */
static int send_large(struct conn *c, const char *bytes, size_t len)
{
    size_t first = RECORD - c->used % RECORD;
    first = first < len ? first : len;
    size_t whole = (len - first) / RECORD * RECORD, rest = len - first - whole;
    if (c->used + first > sizeof(c->out)) {
        return say("no room");
    }
    memcpy(c->out + c->used, bytes, first);
    size_t used = c->used + first;
    c->used = 0;
    if (write_all(&c->pub, c->out, used) != 0 || write_all(&c->pub, bytes + first, whole) != 0) {
        return -1;
    }
    memcpy(c->out, bytes + first + whole, rest);
    memcpy(c->out + rest, "\r\n", 2);
    return write_all(&c->pub, c->out, rest + 2) == 0 ? push(&c->pub) : -1;
}

static int send_buf(void *arg, void *buf, size_t len)
{
    struct conn *c = arg;
    c->used += (size_t)snprintf(c->out + c->used, sizeof(c->out) - c->used,
                                "*3\r\n$7\r\nPUBLISH\r\n$%zu\r\n%s\r\n$%zu\r\n", strlen(c->topic),
                                c->topic, len);
    if (len > SLACK - 128) {
        return send_large(c, buf, len);
    }
    memcpy(c->out + c->used, buf, len);
    memcpy(c->out + c->used + len, "\r\n", 2);
    c->used += len + 2;
    return c->is_asap || c->used >= BATCH - 256 ? flush(c) : 0;
}

/* ---- receive ---- */

/* All bytes there are, up to one buffer full. -1: the connection is lost. */
static int read_some(struct conn *c, size_t *total)
{
    *total = 0;
    c->has_more = false;
    while (*total < sizeof(c->in)) {
        size_t got = 0;
        if (SSL_read_ex(c->sub.ssl, c->in + *total, sizeof(c->in) - *total, &got) == 1) {
            *total += got;
            continue;
        }
        int error = SSL_get_error(c->sub.ssl, 0);
        return error == SSL_ERROR_WANT_READ ? 0 : say("read");
    }
    c->has_more = true;
    return 0;
}

static int take_all(struct conn *c, pb_on_msg *fn, void *fn_arg)
{
    int count = 0;
    void *found = NULL;
    while (redisReaderGetReply(c->reader, &found) == REDIS_OK && found != NULL) {
        redisReply *reply = found;
        if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
            reply->element[2]->type == REDIS_REPLY_STRING) {
            fn(fn_arg, reply->element[2]->str, (size_t)reply->element[2]->len);
        }
        freeReplyObject(reply);
        count++;
    }
    return c->reader->err == 0 ? count : -1;
}

static int poll_conn(void *arg, int timeout_ms, pb_on_msg *fn, void *fn_arg)
{
    struct conn *c = arg;
    struct pollfd ready = {.fd = c->sub.fd, .events = POLLIN};
    size_t total;
    if (!c->has_more && poll(&ready, 1, timeout_ms) <= 0) {
        return 0;
    }
    if (read_some(c, &total) != 0) {
        return -1;
    }
    if (total != 0 && redisReaderFeed(c->reader, c->in, total) != REDIS_OK) {
        return -1;
    }
    return take_all(c, fn, fn_arg);
}

const struct pb_backend pb_redis_tls = {
    .name = "redis-tls",
    .transport = "tls",
    .process = "redis-server",
    .version = version,
    .broker_start = start_tls,
    .open = open_tls,
    .loan = loan,
    .send = send_buf,
    .flush = flush,
    .poll = poll_conn,
    .close = close_conn,
};
