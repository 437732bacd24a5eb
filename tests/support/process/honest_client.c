/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/process/honest_client.h"

#include "wire/base/clock.h"
#include "wire/codec/control.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 5000
#define RECORD_MAX 512u

struct honest {
    int fd;
    struct amb_control_reader reader;
    uint8_t sent[RECORD_MAX];
    size_t sent_len;
};

static bool honest_send(struct honest *honest, const Amb__Control__Control *message)
{
    size_t len = amb_control_packed_size(message);
    if (len == 0 || honest->sent_len + len > RECORD_MAX) {
        return false;
    }
    uint8_t *at = honest->sent + honest->sent_len;
    amb_control_pack(message, at);
    honest->sent_len += len;
    return send(honest->fd, at, len, MSG_NOSIGNAL) == (ssize_t)len;
}

/* NULL: closed, late or nonsense. Descriptors that come are dropped by the kernel. */
static Amb__Control__Control *honest_receive(struct honest *honest)
{
    for (;;) {
        uint8_t bytes[1024];
        struct pollfd poller = {.fd = honest->fd, .events = POLLIN};
        size_t wanted = amb_control_wanted(&honest->reader);
        if (poll(&poller, 1, PATIENCE_MS) <= 0) {
            return NULL;
        }
        ssize_t got = recv(honest->fd, bytes, wanted < sizeof(bytes) ? wanted : sizeof(bytes), 0);
        size_t used;
        Amb__Control__Control *message = NULL;
        if (got <= 0 || amb_control_read(&honest->reader, bytes, (size_t)got, &used, &message,
                                         NULL) != AMB_OK) {
            return NULL;
        }
        if (message != NULL) {
            return message;
        }
    }
}

static bool send_hello(struct honest *honest)
{
    Amb__Control__Hello hello;
    amb__control__hello__init(&hello);
    hello.version_min = hello.version_max = AMB_CONTROL_VERSION;
    hello.name = (char *)(uintptr_t) "honest";
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_HELLO;
    message.hello = &hello;
    return honest_send(honest, &message);
}

static bool send_auth(struct honest *honest, const ProtobufCBinaryData *nonce)
{
    uint8_t proof[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    if (HMAC(EVP_sha256(), HONEST_TOKEN, (int)strlen(HONEST_TOKEN), nonce->data, nonce->len, proof,
             &len) == NULL) {
        return false;
    }
    Amb__Control__Auth auth;
    amb__control__auth__init(&auth);
    auth.proof.data = proof;
    auth.proof.len = len;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_AUTH;
    message.auth = &auth;
    return honest_send(honest, &message);
}

static const char *honest_talk(struct honest *honest)
{
    if (!send_hello(honest)) {
        return "Hello";
    }
    Amb__Control__Control *message = honest_receive(honest);
    if (message == NULL || message->body_case != AMB__CONTROL__CONTROL__BODY_CHALLENGE) {
        amb_control_free(message);
        return "Challenge";
    }
    bool is_sent = send_auth(honest, &message->challenge->nonce);
    amb_control_free(message);
    if (!is_sent) {
        return "Auth";
    }
    message = honest_receive(honest);
    bool is_welcome = message != NULL && message->body_case == AMB__CONTROL__CONTROL__BODY_WELCOME;
    amb_control_free(message);
    return is_welcome ? NULL : "Welcome";
}

bool honest_handshake(const struct brokerd *brokerd, bool is_unix, const char **what,
                      uint8_t *recorded, size_t *recorded_len)
{
    struct honest honest = {.fd = brokerd_connect(brokerd, is_unix)};
    if (honest.fd < 0) {
        *what = "connect";
        return false;
    }
    amb_control_reader_init(&honest.reader);
    const char *failed = honest_talk(&honest);
    amb_control_reader_fini(&honest.reader);
    (void)close(honest.fd);
    if (failed != NULL) {
        *what = failed;
        return false;
    }
    if (recorded != NULL) {
        memcpy(recorded, honest.sent, honest.sent_len);
        *recorded_len = honest.sent_len;
    }
    return true;
}

static void *prober_main(void *arg)
{
    struct honest_prober *prober = arg;
    /* Once at least: some attacks are over before this thread has its first turn. */
    for (unsigned i = 0; (i == 0 || !atomic_load(&prober->is_stopping)) && i < HONEST_SAMPLES;
         i++) {
        int64_t begin_ns = amb_clock_monotonic_ns();
        const char *what = NULL;
        if (honest_handshake(prober->brokerd, i % 2 == 0, &what, NULL, NULL)) {
            prober->ns[prober->count++] = amb_clock_monotonic_ns() - begin_ns;
        } else if (prober->failed++ == 0) {
            prober->what = what;
        }
        (void)poll(NULL, 0, 5);
    }
    return NULL;
}

void honest_prober_start(struct honest_prober *prober, const struct brokerd *brokerd)
{
    memset(prober, 0, sizeof(*prober));
    prober->brokerd = brokerd;
    if (pthread_create(&prober->thread, NULL, prober_main, prober) != 0) {
        test_fail("no thread for the honest client");
    }
}

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void honest_prober_stop(struct honest_prober *prober)
{
    atomic_store(&prober->is_stopping, true);
    (void)pthread_join(prober->thread, NULL);
    qsort(prober->ns, prober->count, sizeof(prober->ns[0]), compare_ns);
}

int64_t honest_prober_us(const struct honest_prober *prober, unsigned permille)
{
    if (prober->count == 0) {
        return -1;
    }
    return prober->ns[(size_t)(prober->count - 1) * permille / 1000] / AMB_NS_PER_US;
}
