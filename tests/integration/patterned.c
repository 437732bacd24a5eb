/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes messages with a pattern that messages_test.py knows, too: PROGRAM URL COUNT. Message i
 * goes to patterned.(i % 4) and has i % 600 bytes. Byte j of every third one is ASCII, 32 + (i + j)
 * % 95. Else it is (i + j * (1 + i % 255)) % 256.
 */
#include <amb/amb.h>
#include <stdio.h>
#include <stdlib.h>

#define SIZE_MAX_BYTES 600u
#define TOPICS 4u

static void fill(uint8_t *data, size_t len, uint64_t i)
{
    for (uint64_t j = 0; j < len; j++) {
        data[j] = (uint8_t)(i % 3 == 0 ? 32 + (i + j) % 95 : i + j * (1 + i % 255));
    }
}

static enum amb_status publish(struct amb_conn *conn, uint64_t count)
{
    static uint8_t data[SIZE_MAX_BYTES];
    enum amb_status status = AMB_OK;
    for (uint64_t i = 0; i < count && status == AMB_OK; i++) {
        char topic[32];
        size_t len = i % SIZE_MAX_BYTES;
        (void)snprintf(topic, sizeof(topic), "patterned.%u", (unsigned)(i % TOPICS));
        fill(data, len, i);
        status = amb_publish(conn, topic, data, len, 60 * AMB_SEC);
    }
    return status;
}

int main(int argc, char **argv)
{
    struct amb_conn *conn;
    if (argc != 3) {
        return 64;
    }
    enum amb_status status = amb_connect(argv[1], NULL, &conn);
    if (status == AMB_OK) {
        status = publish(conn, strtoull(argv[2], NULL, 10));
        enum amb_status closed = amb_close(conn, 60 * AMB_SEC);
        status = status == AMB_OK ? closed : status;
    }
    (void)fprintf(stderr, "%s\n", amb_strerror(status));
    return status == AMB_OK ? 0 : 70;
}
