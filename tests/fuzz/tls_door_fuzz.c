/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A control connection behind TLS, as door has it without: any bytes, in records of any size, and
 * bytes past TLS between them. Of the first byte one bit says whether the client is known already
 * (1). Another one says whether the bytes are messages, each behind a byte for its length (2). The
 * rest is the number of the message before which somebody puts three bytes of his own into the
 * connection (0: none). With WHOLE the handshake is this input's own; else it is one that was kept.
 * The broker answers whole messages, and nothing of the client is left.
 */
#include "tests/fuzz/fuzz_tls_kept.h"
#include "tests/support/door/stepped_control.h"

#define KNOWN 1u
#define FRAMED 2u
#define TOUCHED_AT 2u /* bits below the number of a message */
#define WHOLE 0xffu   /* a first byte */

struct talk {
    struct amb_client *client;
    struct amb_tls *tls;
    int fd;
    bool is_touched;
    struct amb_control_reader reader;
};

/* Whole messages, until the broker has ended the connection, or TLS has. */
static void listen_to(struct talk *talk)
{
    uint8_t bytes[4096];
    struct iovec iov = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    ssize_t got;
    while ((got = amb_tls_receive(talk->tls, &iov, 1)) > 0) {
        for (size_t at = 0; at < (size_t)got;) {
            size_t used;
            Amb__Control__Control *message = NULL;
            amb_assert(amb_control_read(&talk->reader, bytes + at, (size_t)got - at, &used,
                                        &message, NULL) == AMB_OK);
            amb_control_free(message);
            at += used;
        }
    }
}

static void say(struct talk *talk, const uint8_t *bytes, size_t len)
{
    (void)fuzz_tls_say(talk->tls, bytes, len);
    stepped_settle(talk->client);
    listen_to(talk);
}

static void say_body(struct talk *talk, const uint8_t *body, uint8_t len)
{
    uint8_t bytes[AMB_CONTROL_PREFIX_SIZE + 255] = {'A', 'M', 'B', AMB_CONTROL_VERSION, len};
    memcpy(bytes + AMB_CONTROL_PREFIX_SIZE, body, len);
    say(talk, bytes, AMB_CONTROL_PREFIX_SIZE + (size_t)len);
}

static void touch(struct talk *talk, const uint8_t *bytes)
{
    stepped_say(talk->fd, bytes, 3);
    talk->is_touched = true;
    stepped_settle(talk->client);
    listen_to(talk);
}

static void speak(struct talk *talk, uint8_t how, const uint8_t *data, size_t len)
{
    unsigned touched_at = how >> TOUCHED_AT;
    for (unsigned number = 1; len > 0; number++) {
        size_t part = (how & FRAMED) != 0 ? *data : 1 + number * 37 % 500;
        if ((how & FRAMED) != 0) {
            data++;
            len--;
        }
        part = part < len ? part : len;
        if (number == touched_at && len >= 3) {
            touch(talk, data);
        }
        if ((how & FRAMED) != 0) {
            say_body(talk, data, (uint8_t)part);
        } else {
            say(talk, data, part);
        }
        data += part;
        len -= part;
    }
}

static void introduce(struct talk *talk)
{
    say_body(talk, stepped_hello, sizeof(stepped_hello));
    say_body(talk, stepped_auth, sizeof(stepped_auth));
    amb_assert(talk->client->state == AMB_CLIENT_LIVE);
}

/* Both ends of TLS; the broker's is the client's object's from here. */
static void shake(struct talk *talk, bool is_whole)
{
    struct tls_two two = {.broker_fd = talk->client->fd, .client_fd = talk->fd};
    if (is_whole) {
        fuzz_tls_shake(&two, AMB_TLS_ALPN_CONTROL);
    } else {
        fuzz_kept_take(&two);
    }
    talk->tls = two.client;
    amb_assert(amb_client_use_tls(talk->client, two.broker) == AMB_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct talk talk = {.fd = -1};
    if (len == 0) {
        return 0;
    }
    fuzz_kept_init(AMB_TLS_ALPN_CONTROL);
    talk.client = stepped_connect(false, &talk.fd);
    shake(&talk, data[0] == WHOLE);
    amb_control_reader_init(&talk.reader);
    if ((data[0] & KNOWN) != 0) {
        introduce(&talk);
    }
    speak(&talk, data[0], data + 1, len - 1);
    amb_control_reader_fini(&talk.reader);
    amb_tls_destroy(&talk.tls);
    stepped_leave(talk.client, talk.fd);
    fuzz_kept_leave();
    return 0;
}
