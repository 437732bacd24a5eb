/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first bytes at an encrypted door, up to libssl: in pieces of the first byte's size (0: all at
 * once). They never end in a connection, for nobody here has keys. A peer that is no TLS gets no
 * answer, and any other one gets records of TLS alone. The end of the bytes is the end of the
 * handshake.
 */
#include "tests/fuzz/fuzz_tls.h"
#include "wire/tls/tls_state.h"

#include <poll.h>
#include <unistd.h>

static enum amb_status step(struct amb_tls *tls)
{
    short events = 0;
    enum amb_status status = amb_tls_step(tls, &events);
    amb_assert(status != AMB_OK);
    amb_assert(status != AMB_EAGAIN || (events & POLLIN) != 0);
    amb_assert(tls->pipe.in.cap <= AMB_TLS_BUFFER_MIN); /* nobody is charged yet */
    return status;
}

static void check_answer(int fd, bool is_plain)
{
    uint8_t bytes[8192];
    ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got > 0) {
        amb_assert(!is_plain);
        amb_assert(bytes[0] == SSL3_RT_ALERT || bytes[0] == SSL3_RT_HANDSHAKE);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct tls_two two;
    if (len < 2) {
        return 0;
    }
    fuzz_tls_init();
    tls_two_connect_narrow(&two, FUZZ_TLS_BUFFER);
    amb_assert(amb_tls_create_accepting(fuzz_tls_server, two.broker_fd, &two.broker) == AMB_OK);
    size_t piece = data[0] == 0 ? len : data[0];
    enum amb_status status = AMB_EAGAIN;
    for (size_t at = 1; at < len && status == AMB_EAGAIN; at += piece) {
        size_t part = piece < len - at ? piece : len - at;
        if (send(two.client_fd, data + at, part, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)part) {
            break;
        }
        status = step(two.broker);
    }
    amb_assert(shutdown(two.client_fd, SHUT_WR) == 0);
    for (unsigned i = 0; i < 64 && status == AMB_EAGAIN; i++) {
        status = step(two.broker);
    }
    amb_assert(status != AMB_EAGAIN && amb_tls_why(two.broker)[0] != '\0');
    check_answer(two.client_fd, amb_tls_is_plain(two.broker));
    tls_two_fini(&two);
    return 0;
}
