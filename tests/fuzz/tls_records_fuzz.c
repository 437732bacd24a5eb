/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ends of TLS whose handshake is done, and somebody between them who may do as he likes with
 * the records to the broker. Each step is a byte for what and one for how much. In any case
 * the broker reads a beginning of what the client has sent, and nothing else. Without him it reads
 * all of it, and then the end.
 */
#include "tests/fuzz/fuzz_tls.h"
#include "wire/tls/tls_state.h"

#include <errno.h>
#include <unistd.h>

#define WIRE_MAX ((size_t)512 << 10)
#define SAY_MAX ((size_t)40000)
#define STEPS_MAX 200u
#define READS_MAX 4000u

struct script {
    const uint8_t *at, *end;
};

static struct {
    struct tls_two two, between; /* between: the client writes there, and nobody else reads */
    uint8_t wire[WIRE_MAX];      /* records on their way */
    size_t wire_len;
    uint64_t said, heard; /* plain bytes */
    bool is_touched;      /* by somebody */
    bool is_over;         /* for the broker */
    bool has_ended;       /* ... in order */
} the;

FUZZ_PLAIN static uint32_t take(struct script *script)
{
    return script->at < script->end ? *script->at++ : 0;
}

FUZZ_PLAIN static uint8_t byte_at(uint64_t at)
{
    return (uint8_t)(at * 31 + (at >> 8) * 7 + (at >> 16));
}

FUZZ_PLAIN static void collect(void)
{
    ssize_t got;
    while ((got = recv(the.between.broker_fd, the.wire + the.wire_len, WIRE_MAX - the.wire_len,
                       MSG_DONTWAIT)) > 0) {
        the.wire_len += (size_t)got;
    }
}

FUZZ_PLAIN static void say(size_t len)
{
    static uint8_t bytes[SAY_MAX];
    if (the.wire_len + len + 4096 > WIRE_MAX / 2) {
        return;
    }
    for (size_t i = 0; i < len; i++) {
        bytes[i] = byte_at(the.said + i);
    }
    the.said += fuzz_tls_say(the.two.client, bytes, len);
    collect();
}

FUZZ_PLAIN static void rekey(bool asks)
{
    if (SSL_key_update(the.two.client->ssl,
                       asks ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED) == 1) {
        (void)SSL_do_handshake(the.two.client->ssl);
        (void)amb_tls_push(the.two.client);
    }
    collect();
}

/* Some of the wire, or all. */
FUZZ_PLAIN static void pass(size_t len)
{
    len = len < the.wire_len ? len : the.wire_len;
    ssize_t sent =
        len == 0 ? 0 : send(the.two.client_fd, the.wire, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
        the.wire_len -= (size_t)sent;
        memmove(the.wire, the.wire + sent, the.wire_len);
    }
}

/* Of the wire, from a place on. */
FUZZ_PLAIN static void change(unsigned kind, size_t place, size_t count)
{
    if (the.wire_len == 0 || the.wire_len > WIRE_MAX / 2) {
        return;
    }
    place %= the.wire_len;
    count = 1 + count % 64;
    count = count < the.wire_len - place ? count : the.wire_len - place;
    uint8_t *at = the.wire + place;
    if (kind == 0) {
        *at ^= (uint8_t)(1u << count % 8);
    } else if (kind == 1) {
        memmove(at, at + count, the.wire_len - place - count);
        the.wire_len -= count;
    } else {
        memmove(at + count, at, the.wire_len - place);
        the.wire_len += count;
    }
    the.is_touched = true;
}

static void hear(size_t most)
{
    static uint8_t bytes[SAY_MAX];
    struct iovec iov[2] = {{.iov_base = bytes, .iov_len = most / 2},
                           {.iov_base = bytes + most / 2, .iov_len = most - most / 2}};
    ssize_t got = amb_tls_receive(the.two.broker, iov, 2);
    for (ssize_t i = 0; i < got; i++) {
        amb_assert(bytes[i] == byte_at(the.heard + (uint64_t)i));
    }
    the.heard += got > 0 ? (uint64_t)got : 0;
    amb_assert(the.heard <= the.said);
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
        the.is_over = true;
        the.has_ended = got == 0;
        amb_assert(got == 0 || amb_tls_why(the.two.broker)[0] != '\0');
    }
    if (got < 0 && errno == EAGAIN) { /* All that was there has been asked for. */
        uint8_t left;
        amb_assert(recv(the.two.broker_fd, &left, 1, MSG_PEEK | MSG_DONTWAIT) < 0);
    }
}

static void step(struct script *script)
{
    uint32_t what = take(script), how = take(script);
    switch (what % 10) {
    case 0:
        say(how);
        return;
    case 1:
        say((how + 1) * 150);
        return;
    case 2:
        rekey((how & 1) != 0);
        return;
    case 3:
        pass(how);
        return;
    case 4:
        pass(WIRE_MAX);
        return;
    case 5:
        hear(1 + how * 150);
        return;
    case 6:
        if (how % 4 == 0) {
            amb_assert(!amb_tls_rest(the.two.broker) || the.two.broker->pipe.in.cap == 0);
        } else {
            (void)amb_tls_trim(the.two.broker);
        }
        return;
    case 7: /* the broker's own bytes, which nobody reads: its socket may be full */
        (void)fuzz_tls_say(the.two.broker, the.wire, how);
        return;
    default:
        change(what / 10 % 3, how * 256 + take(script), take(script));
        return;
    }
}

FUZZ_PLAIN static void begin(void)
{
    fuzz_tls_init();
    memset(&the, 0, offsetof(__typeof__(the), wire));
    the.wire_len = 0;
    the.said = the.heard = 0;
    the.is_touched = the.is_over = the.has_ended = false;
    tls_two_connect_narrow(&the.two, FUZZ_TLS_BUFFER);
    tls_two_connect_narrow(&the.between, FUZZ_TLS_BUFFER);
    fuzz_tls_shake(&the.two, AMB_TLS_ALPN_LINK);
    the.two.client->fd = the.between.client_fd;
}

/* The rest arrives, and the end. */
FUZZ_PLAIN static void finish(void)
{
    for (unsigned i = 0; i < READS_MAX && !the.is_over; i++) {
        pass(WIRE_MAX);
        hear(SAY_MAX);
        if (the.wire_len == 0) {
            (void)shutdown(the.two.client_fd, SHUT_WR);
        }
    }
    amb_assert(the.is_over);
    bool is_rekeyed = the.two.client->rekeys_sent > 1; /* more than once a MiB */
    amb_assert(the.is_touched || is_rekeyed || (the.has_ended && the.heard == the.said));
    tls_two_fini(&the.two);
    tls_two_fini(&the.between);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct script script = {data, data + len};
    if (len == 0) {
        return 0;
    }
    begin();
    for (unsigned i = 0; i < STEPS_MAX && script.at < script.end && !the.is_over; i++) {
        step(&script);
    }
    finish();
    return 0;
}
