/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A control connection from its first byte to its end, as the control thread and two workers see
 * it, without threads. The first byte says whether the client is known already, and which door it
 * came through. It also says whether bytes come as they are or in messages (a length byte before
 * each), and whether the doctor's files answer at once. Always, the broker answers in whole
 * messages, and nothing of the client is left afterwards (stepped_leave); only topics stay, up to
 * their limit. With requests and workers, and so slow: the way to a session runs more often, for
 * several clients at once, in handshake.
 */
#include "tests/fuzz/fuzz_looks.h"
#include "tests/support/door/stepped_control.h"

#include <sys/socket.h>

#define KNOWN 1u  /* flag: Hello and Auth have gone before */
#define LOCAL 2u  /* flag: on a Unix socket */
#define FRAMED 4u /* flag: messages, not bytes */
#define SWIFT 8u  /* flag: files answer at once, and not when the client has left */

/* The broker's answers have to be whole messages. */
static void listen_to(int fd, struct amb_control_reader *reader)
{
    uint8_t bytes[4096];
    ssize_t got;
    while ((got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
        for (size_t at = 0; at < (size_t)got;) {
            size_t used;
            Amb__Control__Control *message = NULL;
            amb_assert(amb_control_read(reader, bytes + at, (size_t)got - at, &used, &message,
                                        NULL) == AMB_OK);
            amb_control_free(message);
            at += used;
        }
    }
}

static void talk(int fd, struct amb_client *client, struct amb_control_reader *reader,
                 const uint8_t *data, size_t len, bool is_framed)
{
    while (len > 0) {
        size_t part = is_framed ? *data : len;
        if (is_framed) {
            data++;
            len--;
            part = part < len ? part : len;
            stepped_say_body(fd, data, (uint8_t)part);
        } else {
            part = part < 4096 ? part : 4096;
            stepped_say(fd, data, part);
        }
        stepped_settle(client);
        listen_to(fd, reader);
        data += part;
        len -= part;
    }
}

/* Looks at files may be under way, and last longer than the client is there. */
static void leave(int fd, struct amb_client *client)
{
    if (fuzz_files.held > 0) {
        (void)shutdown(fd, SHUT_WR);
        stepped_settle(client);
        fuzz_files_answer();
    }
    stepped_leave(client, fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0) {
        return 0;
    }
    int fd;
    fuzz_files.holds = (data[0] & SWIFT) == 0;
    struct amb_client *client = stepped_connect((data[0] & LOCAL) != 0, &fd);
    struct amb_control_reader reader;
    amb_control_reader_init(&reader);
    if ((data[0] & KNOWN) != 0) {
        stepped_introduce(client, fd);
    }
    talk(fd, client, &reader, data + 1, len - 1, (data[0] & FRAMED) != 0);
    listen_to(fd, &reader);
    amb_control_reader_fini(&reader);
    leave(fd, client);
    return 0;
}
