/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes through TLS: whole and in order, full records, new keys, rest, ends of all kinds. */
#include "wire/tls/tls_io.h"

#include "tests/support/tls/tls_account.h"
#include "tests/support/tls/tls_made.h"
#include "tests/support/tls/tls_two.h"
#include "wire/tls/tls_state.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define RECORD_HEAD 5u

static struct tls_made made;
static struct amb_tls_context *server, *client;

static int setup(void **state)
{
    (void)state;
    tls_made_ends(&made, "localhost", &server, &client);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tls_made_ends_fini(&made, &server, &client);
    return 0;
}

static void open_two(struct tls_two *two)
{
    tls_two_make(two, server, client, &(struct amb_tls_wish){.name = "localhost"});
    tls_two_shake(two);
    assert_int_equal(two->broker_status, AMB_OK);
    assert_int_equal(two->client_status, AMB_OK);
}

static ssize_t send_bytes(struct amb_tls *tls, const void *bytes, size_t len)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    return amb_tls_send(tls, &iov, 1);
}

static ssize_t receive_bytes(struct amb_tls *tls, void *bytes, size_t len)
{
    const struct iovec iov = {.iov_base = bytes, .iov_len = len};
    return amb_tls_receive(tls, &iov, 1);
}

/* Until len bytes have come. */
static void receive_all(struct amb_tls *tls, int fd, uint8_t *bytes, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t got = receive_bytes(tls, bytes + at, len - at);
        if (got < 0) {
            assert_int_equal(errno, EAGAIN);
            tls_two_await(fd);
            continue;
        }
        assert_true(got > 0);
        at += (size_t)got;
    }
}

static uint8_t byte_at(size_t at)
{
    return (uint8_t)(at * 131 + at / 251);
}

/* Fifty thousand bytes, which are several records, from one end to the other. */
static void pass_many(struct amb_tls *from, struct amb_tls *to, int to_fd)
{
    static uint8_t bytes[50000], back[sizeof(bytes)];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = byte_at(i);
    }
    memset(back, 0, sizeof(back));
    assert_int_equal(send_bytes(from, bytes, sizeof(bytes)), sizeof(bytes));
    receive_all(to, to_fd, back, sizeof(back));
    assert_memory_equal(bytes, back, sizeof(bytes));
}

/* Opens both. The client's records of these bytes are in `wire`, and not at its broker. Returns how
 * long they are. */
static size_t divert(struct tls_two *two, struct tls_two *other, const void *bytes, size_t len,
                     uint8_t *wire, size_t size)
{
    open_two(two);
    tls_two_connect(other);
    two->client->fd = other->client_fd;
    assert_int_equal(send_bytes(two->client, bytes, len), len);
    tls_two_await(other->broker_fd);
    ssize_t got = recv(other->broker_fd, wire, size, 0);
    assert_true(got > (ssize_t)(len + RECORD_HEAD));
    return (size_t)got;
}

static void test_bytes_in_pieces_of_any_size_arrive_in_order(void **state)
{
    (void)state;
    struct tls_two two;
    open_two(&two);
    const size_t all = (size_t)8 << 20;
    uint8_t *bytes = malloc(all), *back = malloc(all);
    for (size_t i = 0; i < all; i++) {
        bytes[i] = byte_at(i);
    }
    size_t sent = 0, got = 0;
    for (unsigned round = 0; got < all; round++) {
        /* Seven pieces: some empty, some tiny, some of many records. */
        struct iovec iov[7];
        size_t at = sent;
        for (unsigned i = 0; i < 7; i++) {
            size_t len = ((round * 7 + i) * 7919u) % ((i % 3 == 0) ? 100000u : 300u);
            len = len < all - at ? len : all - at;
            iov[i] = (struct iovec){.iov_base = bytes + at, .iov_len = i == 2 ? 0 : len};
            at += iov[i].iov_len;
        }
        ssize_t taken = amb_tls_send(two.client, iov, 7);
        assert_true(taken >= 0 || errno == EAGAIN);
        sent += taken > 0 ? (size_t)taken : 0;
        const struct iovec into[2] = {
            {.iov_base = back + got, .iov_len = (all - got) / 3},
            {.iov_base = back + got + (all - got) / 3, .iov_len = all - got - (all - got) / 3}};
        ssize_t part = amb_tls_receive(two.broker, into, 2);
        assert_true(part > 0 || errno == EAGAIN);
        got += part > 0 ? (size_t)part : 0;
    }
    assert_memory_equal(bytes, back, all);
    assert_false(amb_tls_has_unsent(two.client));
    free(bytes);
    free(back);
    tls_two_fini(&two);
}

/* The sizes of the records in a row of bytes. Returns how many, all of them whole. */
static unsigned count_records(const uint8_t *bytes, size_t len, size_t *largest)
{
    unsigned count = 0;
    size_t at = 0;
    *largest = 0;
    while (at < len) {
        size_t size = (size_t)bytes[at + 3] << 8 | bytes[at + 4];
        assert_int_equal(bytes[at], 23);
        *largest = size > *largest ? size : *largest;
        at += RECORD_HEAD + size;
        count++;
    }
    assert_int_equal(at, len);
    return count;
}

static void test_small_pieces_are_gathered_into_full_records(void **state)
{
    (void)state;
    struct tls_two two;
    open_two(&two);
    static uint8_t bytes[64 * 1000], wire[80000];
    struct iovec iov[64];
    for (unsigned i = 0; i < 64; i++) {
        iov[i] = (struct iovec){.iov_base = bytes + (size_t)i * 1000, .iov_len = 1000};
    }
    assert_int_equal(amb_tls_send(two.client, iov, 64), sizeof(bytes));
    size_t len = 0, largest;
    while (len < sizeof(bytes)) {
        tls_two_await(two.broker_fd);
        ssize_t got = recv(two.broker_fd, wire + len, sizeof(wire) - len, 0);
        assert_true(got > 0);
        len += (size_t)got;
    }
    /* 64,000 bytes are four records, of which three are full. */
    assert_int_equal(count_records(wire, len, &largest), 4);
    assert_in_range(largest, TLS_RECORD + 1, TLS_RECORD + TLS_RECORD_EXTRA);
    tls_two_fini(&two);
}

static void test_while_the_socket_is_full_no_more_is_taken(void **state)
{
    (void)state;
    struct tls_two two;
    open_two(&two);
    const size_t some = (size_t)1 << 20;
    uint8_t *bytes = calloc(1, some);
    size_t sent = 0, got = 0;
    ssize_t taken;
    while ((taken = send_bytes(two.client, bytes, some)) > 0) {
        sent += (size_t)taken;
    }
    assert_int_equal(errno, EAGAIN);
    assert_true(amb_tls_has_unsent(two.client));
    assert_int_equal(two.client->pipe.out.cap, AMB_TLS_BUFFER_MAX);
    while (got < sent) {
        ssize_t part = receive_bytes(two.broker, bytes, some);
        assert_true(part > 0 || errno == EAGAIN);
        got += part > 0 ? (size_t)part : 0;
        assert_true(amb_tls_push(two.client));
    }
    assert_int_equal(got, sent);
    assert_false(amb_tls_has_unsent(two.client));
    free(bytes);
    tls_two_fini(&two);
}

static void test_nothing_that_can_be_read_is_left_behind_a_short_read(void **state)
{
    (void)state;
    struct tls_two two;
    open_two(&two);
    uint8_t bytes[40000] = {1}, back[40000];
    assert_int_equal(send_bytes(two.client, bytes, sizeof(bytes)), sizeof(bytes));
    tls_two_await(two.broker_fd);
    (void)poll(NULL, 0, 20);
    /* One byte of a record: libssl and the buffer hold the rest, and the socket nothing. */
    assert_int_equal(receive_bytes(two.broker, back, 1), 1);
    assert_true(amb_tls_has_unread(two.broker));
    receive_all(two.broker, two.broker_fd, back + 1, sizeof(back) - 1);
    assert_int_equal(receive_bytes(two.broker, back, 1), -1);
    assert_int_equal(errno, EAGAIN);
    assert_false(amb_tls_has_unread(two.broker));
    assert_memory_equal(bytes + 1, back + 1, sizeof(bytes) - 1);
    tls_two_fini(&two);
}

static void test_half_a_record_is_nothing_to_read(void **state)
{
    (void)state;
    struct tls_two two, other;
    uint8_t wire[256], byte = 7, back = 0;
    size_t len = divert(&two, &other, &byte, 1, wire, sizeof(wire));
    for (size_t i = 0; i < len; i++) { /* They go on byte by byte. */
        assert_int_equal(receive_bytes(two.broker, &back, 1), -1);
        assert_int_equal(errno, EAGAIN);
        assert_false(amb_tls_has_unread(two.broker));
        assert_int_equal(send(two.client_fd, wire + i, 1, MSG_NOSIGNAL), 1);
        tls_two_await(two.broker_fd);
    }
    assert_int_equal(receive_bytes(two.broker, &back, 1), 1);
    assert_int_equal(back, byte);
    tls_two_fini(&two);
    tls_two_fini(&other);
}

/* EAGAIN means that the socket is empty: a worker that sleeps by edges hears of no end twice. */
static void test_the_end_behind_half_a_record_is_found_at_once(void **state)
{
    (void)state;
    for (size_t cut = 1; cut < 4000; cut += 333) {
        struct tls_two two, other;
        uint8_t bytes[4000] = {0}, wire[8000], back[4000];
        (void)divert(&two, &other, bytes, sizeof(bytes), wire, sizeof(wire));
        assert_int_equal(send(two.client_fd, wire, cut, MSG_NOSIGNAL), cut);
        assert_int_equal(shutdown(two.client_fd, SHUT_WR), 0);
        struct pollfd end = {.fd = two.broker_fd, .events = POLLRDHUP};
        assert_int_equal(poll(&end, 1, 20000), 1);
        assert_int_equal(receive_bytes(two.broker, back, sizeof(back)), 0);
        tls_two_fini(&two);
        tls_two_fini(&other);
    }
}

static void test_a_flipped_bit_ends_the_connection_and_delivers_nothing(void **state)
{
    (void)state;
    static const size_t places[] = {0, 3, 5, 40, 2000};
    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct tls_two two, other;
        uint8_t bytes[4000] = {0}, wire[8000], back[4000];
        size_t len = divert(&two, &other, bytes, sizeof(bytes), wire, sizeof(wire));
        wire[places[i]] ^= 0x40;
        assert_int_equal(send(two.client_fd, wire, len, MSG_NOSIGNAL), len);
        assert_int_equal(shutdown(two.client_fd, SHUT_WR), 0);
        ssize_t got;
        while ((got = receive_bytes(two.broker, back, sizeof(back))) < 0 && errno == EAGAIN) {
            tls_two_await(two.broker_fd);
        }
        assert_true(got <= 0); /* A length that is too long ends with the bytes. */
        assert_true(got == 0 || errno == EPROTO);
        assert_true(send_bytes(two.broker, bytes, 1) <= 1);
        assert_int_not_equal(receive_bytes(two.broker, back, 1), 1);
        tls_two_fini(&two);
        tls_two_fini(&other);
    }
}

static void test_keys_are_renewed_by_bytes_and_by_records(void **state)
{
    (void)state;
    struct tls_two two;
    const size_t some = (size_t)3 << 20;
    uint8_t *bytes = malloc(some), *back = malloc(some);
    for (size_t i = 0; i < some; i++) {
        bytes[i] = byte_at(i);
    }
    for (unsigned by_records = 0; by_records < 2; by_records++) {
        open_two(&two);
        two.client->rekey_bytes = by_records != 0 ? UINT64_MAX : (uint64_t)2 << 20;
        two.client->rekey_records = by_records != 0 ? 128 : UINT64_MAX;
        size_t sent = 0, got = 0;
        for (unsigned round = 0; got < 4 * some; round++) {
            size_t at = sent % some;
            ssize_t taken = sent < 4 * some ? send_bytes(two.client, bytes + at, some - at) : 0;
            assert_true(taken >= 0 || errno == EAGAIN);
            sent += taken > 0 ? (size_t)taken : 0;
            assert_true(amb_tls_push(two.client));
            ssize_t part = receive_bytes(two.broker, back + got % some, some - got % some);
            assert_true(part > 0 || errno == EAGAIN);
            got += part > 0 ? (size_t)part : 0;
            if (got % some == 0 && part > 0) {
                assert_memory_equal(bytes, back, some);
            }
        }
        /* 12 MiB by 2 MiB, or 768 records and some by 128. */
        assert_in_range(two.client->rekeys_sent, 5, 6);
        assert_int_equal(two.broker->rekeys_heard, two.client->rekeys_sent);
        tls_two_fini(&two);
    }
    free(bytes);
    free(back);
}

static void test_a_peer_that_renews_its_keys_all_the_time_is_cut_off(void **state)
{
    (void)state;
    struct tls_two two;
    open_two(&two);
    uint8_t byte = 1, back;
    two.client->rekey_records = 1;
    assert_int_equal(send_bytes(two.client, &byte, 1), 1); /* By the first keys. */
    assert_int_equal(send_bytes(two.client, &byte, 1), 1); /* Once is nobody's harm. */
    receive_all(two.broker, two.broker_fd, &back, 1);
    receive_all(two.broker, two.broker_fd, &back, 1);
    assert_int_equal(send_bytes(two.client, &byte, 1), 1);
    ssize_t got;
    while ((got = receive_bytes(two.broker, &back, 1)) < 0 && errno == EAGAIN) {
        tls_two_await(two.broker_fd);
    }
    assert_int_equal(got, -1);
    assert_int_equal(errno, EPROTO);
    assert_string_equal(amb_tls_why(two.broker), "the peer changes its keys more than once a MiB");
    tls_two_fini(&two);
}

static void test_a_flood_of_new_keys_ends_at_the_second(void **state)
{
    (void)state;
    struct tls_two two;
    open_two(&two);
    for (unsigned i = 0; i < 500; i++) {
        assert_int_equal(SSL_key_update(two.client->ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        assert_int_equal(SSL_do_handshake(two.client->ssl), 1);
    }
    assert_true(amb_tls_push(two.client));
    tls_two_await(two.broker_fd);
    (void)poll(NULL, 0, 20);
    uint8_t back;
    assert_int_equal(receive_bytes(two.broker, &back, 1), -1);
    assert_int_equal(errno, EPROTO);
    assert_in_range(two.broker->rekeys_heard, 2, 2);
    tls_two_fini(&two);
}

static void test_a_connection_at_rest_gives_its_memory_back(void **state)
{
    (void)state;
    struct tls_two two;
    open_two(&two);
    for (unsigned round = 0; round < 3; round++) {
        pass_many(two.client, two.broker, two.broker_fd);
        assert_false(amb_tls_trim(two.broker)); /* It has just worked. */
        assert_true(amb_tls_trim(two.broker));
        assert_int_equal(two.broker->pipe.in.cap, 0);
        assert_int_equal(two.broker->pipe.out.cap, 0);
        assert_false(amb_tls_trim(two.broker)); /* There is nothing left to give. */
    }
    tls_two_fini(&two);
}

static void test_memory_is_charged_and_without_room_records_are_small(void **state)
{
    (void)state;
    struct tls_two two;
    struct tls_account account = {.limit = SIZE_MAX};
    const struct amb_tls_charge charge = tls_account_charge(&account);
    open_two(&two);
    assert_true(amb_tls_charge(two.client, &charge));
    assert_int_equal(account.bytes,
                     AMB_TLS_HEAP + two.client->pipe.in.cap + two.client->pipe.out.cap);
    account.limit = account.bytes; /* No more than there is. */
    static uint8_t bytes[200000], back[200000];
    for (size_t sent = 0, got = 0; got < sizeof(bytes);) {
        ssize_t taken = send_bytes(two.client, bytes + sent, sizeof(bytes) - sent);
        assert_true(taken >= 0 || errno == EAGAIN);
        sent += taken > 0 ? (size_t)taken : 0;
        ssize_t part = receive_bytes(two.broker, back, sizeof(back));
        assert_true(part > 0 || errno == EAGAIN);
        got += part > 0 ? (size_t)part : 0;
    }
    assert_true(account.bytes <= account.limit);
    amb_tls_destroy(&two.client);
    assert_int_equal(account.bytes, 0);
    tls_two_fini(&two);
}

/* The peer asks for new keys, and sends a byte behind that. */
static void ask_for_keys(struct tls_two *two)
{
    static const uint8_t byte = 5;
    int there = 0;
    two->broker->heard_bytes = TLS_REKEY_APART; /* As if it had sent so much. */
    assert_int_equal(SSL_key_update(two->client->ssl, SSL_KEY_UPDATE_REQUESTED), 1);
    assert_int_equal(SSL_do_handshake(two->client->ssl), 1);
    size_t len = amb_tls_buffer_len(&two->client->pipe.out);
    assert_int_equal(send_bytes(two->client, &byte, 1), 1);
    while (there <= (int)len) {
        tls_two_await(two->broker_fd);
        assert_int_equal(ioctl(two->broker_fd, FIONREAD, &there), 0);
    }
}

/* Fills the buffer of records, while the socket takes nothing. */
static void fill_buffer(struct amb_tls *tls)
{
    static const uint8_t bytes[AMB_TLS_BUFFER_MAX + 1];
    int fds[2], own = tls->fd;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    while (send(fds[0], bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
    }
    tls->fd = fds[0];
    assert_true(send_bytes(tls, bytes, sizeof(bytes)) > 0);
    tls->fd = own;
    (void)close(fds[0]);
    (void)close(fds[1]);
}

/* libssl answers before it reads on. There is something to read again when there is room. */
static void test_an_answer_without_room_waits_and_is_not_asked_for_again(void **state)
{
    (void)state;
    struct tls_two two;
    open_two(&two);
    static uint8_t bytes[AMB_TLS_BUFFER_MAX];
    uint8_t byte = 0;
    fill_buffer(two.broker);
    for (unsigned asked = 0;; asked++) {
        assert_true(asked < 20);
        ask_for_keys(&two);
        if (receive_bytes(two.broker, &byte, 1) < 0) {
            break;
        }
    }
    assert_int_equal(errno, EAGAIN);
    assert_false(amb_tls_has_unread(two.broker));
    while (amb_tls_has_unsent(two.broker)) {
        assert_true(amb_tls_push(two.broker));
        assert_true(receive_bytes(two.client, bytes, sizeof(bytes)) > 0 || errno == EAGAIN);
    }
    assert_true(amb_tls_has_unread(two.broker));
    byte = 0;
    assert_int_equal(receive_bytes(two.broker, &byte, 1), 1);
    assert_int_equal(byte, 5);
    assert_false(amb_tls_has_unread(two.broker));
    tls_two_fini(&two);
}

/* Its broker's end has no buffer, and memory for one of the smallest. */
static void open_with_least(struct tls_two *two, struct tls_account *account)
{
    const struct amb_tls_charge charge = tls_account_charge(account);
    *account = (struct tls_account){.limit = SIZE_MAX};
    open_two(two);
    assert_true(amb_tls_charge(two->broker, &charge));
    (void)amb_tls_rest(two->broker);
    account->limit = account->bytes + AMB_TLS_BUFFER_MIN;
}

static void test_an_answer_without_memory_is_the_end(void **state)
{
    (void)state;
    struct tls_two two;
    struct tls_account account;
    open_with_least(&two, &account); /* The request needs it, and the answer has none. */
    ask_for_keys(&two);
    uint8_t byte;
    assert_int_equal(receive_bytes(two.broker, &byte, 1), 1);
    ask_for_keys(&two); /* Before it reads that, it answers the first. */
    assert_int_equal(receive_bytes(two.broker, &byte, 1), -1);
    assert_int_equal(errno, ENOMEM);
    tls_two_fini(&two);
}

static void test_a_connection_sends_with_the_least_of_memory(void **state)
{
    (void)state;
    struct tls_two two;
    struct tls_account account;
    open_with_least(&two, &account);
    pass_many(two.broker, two.client, two.client_fd);
    tls_two_fini(&two);
}

/* Small machines ask for small records (RFC 6066, 4). */
static void test_a_client_may_ask_for_short_records(void **state)
{
    (void)state;
    struct tls_two two;
    tls_two_make(&two, server, client, &(struct amb_tls_wish){.name = "localhost"});
    assert_int_equal(
        SSL_set_tlsext_max_fragment_length(two.client->ssl, TLSEXT_max_fragment_length_512), 1);
    tls_two_shake(&two);
    assert_int_equal(two.broker_status, AMB_OK);
    pass_many(two.broker, two.client, two.client_fd);
    tls_two_fini(&two);
}

/* Each record is decrypted by itself, however small, and everybody else waits meanwhile. */
static void test_a_call_takes_so_many_records_and_says_that_there_are_more(void **state)
{
    (void)state;
    struct tls_two two;
    open_two(&two);
    enum {
        ALL = 1000
    };
    uint8_t back[ALL];
    for (unsigned i = 0; i < ALL; i++) {
        const uint8_t byte = byte_at(i);
        assert_int_equal(send_bytes(two.client, &byte, 1), 1);
    }
    (void)poll(NULL, 0, 50);
    unsigned calls = 0;
    for (size_t got = 0; got < ALL; calls++) {
        assert_true(calls == 0 || amb_tls_has_unread(two.broker));
        ssize_t part = receive_bytes(two.broker, back + got, ALL - got);
        assert_in_range(part, 1, TLS_READS);
        got += (size_t)part;
    }
    assert_int_equal(calls, (ALL + TLS_READS - 1) / TLS_READS);
    for (unsigned i = 0; i < ALL; i++) {
        assert_int_equal(back[i], byte_at(i));
    }
    assert_int_equal(receive_bytes(two.broker, back, 1), -1);
    assert_false(amb_tls_has_unread(two.broker));
    tls_two_fini(&two);
}

/* As calls for another connection leave them in this thread's queue. */
static void leave_errors(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        ERR_raise(ERR_LIB_SSL, SSL_R_BAD_LENGTH);
    }
}

static void test_errors_of_another_connection_hurt_nobody(void **state)
{
    (void)state;
    struct tls_two two;
    uint8_t byte = 5, back = 0;
    for (unsigned count = 1; count <= 40; count += 13) { /* More than the queue has room for. */
        leave_errors(count);
        open_two(&two);
        leave_errors(count);
        assert_int_equal(receive_bytes(two.broker, &back, 1), -1);
        assert_int_equal(errno, EAGAIN);
        leave_errors(count);
        assert_int_equal(send_bytes(two.client, &byte, 1), 1);
        tls_two_await(two.broker_fd);
        leave_errors(count);
        assert_int_equal(receive_bytes(two.broker, &back, 1), 1);
        assert_int_equal(back, byte);
        leave_errors(count);
        amb_tls_farewell(two.client);
        tls_two_await(two.broker_fd);
        leave_errors(count);
        assert_int_equal(receive_bytes(two.broker, &back, 1), 0);
        tls_two_fini(&two);
    }
}

static void test_an_end_is_an_end_with_a_farewell_or_without(void **state)
{
    (void)state;
    for (unsigned says = 0; says < 2; says++) {
        struct tls_two two;
        open_two(&two);
        uint8_t bytes[100] = {9}, back[100];
        assert_int_equal(send_bytes(two.client, bytes, sizeof(bytes)), sizeof(bytes));
        if (says != 0) {
            amb_tls_farewell(two.client);
        }
        assert_int_equal(shutdown(two.client_fd, SHUT_WR), 0);
        receive_all(two.broker, two.broker_fd, back, sizeof(back));
        ssize_t got;
        while ((got = receive_bytes(two.broker, back, 1)) < 0) {
            assert_int_equal(errno, EAGAIN);
            tls_two_await(two.broker_fd);
        }
        assert_int_equal(got, 0);
        assert_int_equal(receive_bytes(two.broker, back, 1), 0);
        tls_two_fini(&two);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_in_pieces_of_any_size_arrive_in_order),
        cmocka_unit_test(test_small_pieces_are_gathered_into_full_records),
        cmocka_unit_test(test_while_the_socket_is_full_no_more_is_taken),
        cmocka_unit_test(test_nothing_that_can_be_read_is_left_behind_a_short_read),
        cmocka_unit_test(test_half_a_record_is_nothing_to_read),
        cmocka_unit_test(test_the_end_behind_half_a_record_is_found_at_once),
        cmocka_unit_test(test_a_flipped_bit_ends_the_connection_and_delivers_nothing),
        cmocka_unit_test(test_keys_are_renewed_by_bytes_and_by_records),
        cmocka_unit_test(test_a_peer_that_renews_its_keys_all_the_time_is_cut_off),
        cmocka_unit_test(test_a_flood_of_new_keys_ends_at_the_second),
        cmocka_unit_test(test_a_connection_at_rest_gives_its_memory_back),
        cmocka_unit_test(test_memory_is_charged_and_without_room_records_are_small),
        cmocka_unit_test(test_an_answer_without_room_waits_and_is_not_asked_for_again),
        cmocka_unit_test(test_an_answer_without_memory_is_the_end),
        cmocka_unit_test(test_a_connection_sends_with_the_least_of_memory),
        cmocka_unit_test(test_a_client_may_ask_for_short_records),
        cmocka_unit_test(test_a_call_takes_so_many_records_and_says_that_there_are_more),
        cmocka_unit_test(test_errors_of_another_connection_hurt_nobody),
        cmocka_unit_test(test_an_end_is_an_end_with_a_farewell_or_without),
    };
    return cmocka_run_group_tests_name("tls_io", tests, setup, teardown);
}
