/* SPDX-License-Identifier: Apache-2.0 */
/* A million small messages without waiting for any of them, and the proof that each arrived. */
#include <amb/amb.h>
#include <inttypes.h>
#include <stdio.h>

static void on_settled(struct amb_pub *pub, const struct amb_settled *settled, void *arg)
{
    (void)pub;
    uint64_t *done = arg;
    if (settled->status == AMB_OK) {
        *done += settled->last - settled->first + 1;
    } else {
        fprintf(stderr, "%" PRIu64 "..%" PRIu64 ": %s\n", settled->first, settled->last,
                amb_strerror(settled->status));
    }
}

int main(void)
{
    uint64_t done = 0, stalls = 0;
    struct amb_conn *conn;
    struct amb_pub *pub;
    if (amb_connect(NULL, NULL, &conn) != AMB_OK) {
        return 1;
    }
    enum amb_status status =
        amb_pub_open(conn, "ticks", AMB_PUB(.on_settled = on_settled, .arg = &done), &pub);
    for (uint64_t i = 0; status == AMB_OK && i < 1000000; i++) {
        status = amb_pub_send(pub, &i, sizeof(i), AMB_NOWAIT);
        if (status == AMB_EAGAIN) { /* Window full: use the time, then wait for room. */
            stalls++;
            (void)amb_poll(conn, AMB_NOWAIT);
            status = amb_pub_send(pub, &i, sizeof(i), AMB_SEC);
        }
    }
    if (status == AMB_OK) {
        status = amb_pub_flush(pub, 0, 10 * AMB_SEC);
    }
    (void)amb_poll(conn, AMB_NOWAIT); /* The last completions; flush itself runs no callbacks. */
    printf("%" PRIu64 " accepted, %" PRIu64 " stalls, %s\n", done, stalls, amb_strerror(status));
    return amb_close(conn, AMB_SEC) != AMB_OK || done != 1000000;
}
