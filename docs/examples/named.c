/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A meter that numbers its readings over all its lives. Under its name the broker knows how many
 * have come, so the next life goes on there. Readings that a lost session leaves open come once.
 */
#include <amb/amb.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    unsigned count = argc > 1 ? (unsigned)atoi(argv[1]) : 3;
    struct amb_error error = {0};
    struct amb_conn *conn;
    struct amb_pub *pub;
    if (amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        fprintf(stderr, "connect: %s\n", error.text);
        return 1;
    }
    enum amb_status status = amb_pub_open(conn, "readings", AMB_PUB(.name = "meter-7"), &pub);
    if (status != AMB_OK) { /* EBUSY: there is one of that name. */
        fprintf(stderr, "%s\n", amb_last_error(conn).text);
        return 1;
    }
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    amb_pub_stat(pub, &info);
    uint64_t next = info.posted + 1;
    for (unsigned i = 0; i < count && status == AMB_OK; i++) {
        char text[32];
        int len = snprintf(text, sizeof(text), "reading %" PRIu64, next + i);
        status = amb_pub_send(pub, text, (size_t)len, 5 * AMB_SEC);
    }
    if (status == AMB_OK) {
        status = amb_pub_flush(pub, 0, 5 * AMB_SEC);
    }
    printf("readings %" PRIu64 " to %" PRIu64 ": %s\n", next, next + count - 1,
           amb_strerror(status));
    return amb_close(conn, AMB_SEC) != AMB_OK || status != AMB_OK;
}
