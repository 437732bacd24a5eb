/* SPDX-License-Identifier: Apache-2.0 */
/* A display that is slower than its camera: it always gets the newest frame, and is told how many
 * it has skipped. Here both are one program: 100 frames, and a look at three of them. */
#include <amb/amb.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct amb_msg *take(struct amb_sub *sub)
{
    struct amb_msg *msg = NULL;
    if (amb_next(sub, 5 * AMB_SEC, &msg) == AMB_OK) {
        int frame;
        memcpy(&frame, amb_msg_data(msg), sizeof(frame));
        printf("frame %d, %" PRIu64 " skipped\n", frame, amb_msg_lost(msg, NULL));
    }
    return msg;
}

static int publish(struct amb_conn *conn, int first, int last)
{
    for (int frame = first; frame <= last; frame++) {
        if (amb_publish(conn, "camera.slow", &frame, sizeof(frame), AMB_SEC) != AMB_OK) {
            return 1;
        }
    }
    return amb_flush(conn, 5 * AMB_SEC) != AMB_OK;
}

int main(void)
{
    struct amb_error error = {0};
    struct amb_conn *conn;
    if (amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        fprintf(stderr, "connect: %s\n", error.text);
        return 1;
    }
    struct amb_sub *sub;
    if (amb_subscribe(conn, "camera.slow", AMB_SUB(.slow = AMB_SLOW_LATEST), &sub) != AMB_OK) {
        fprintf(stderr, "%s\n", amb_last_error(conn).text);
        return 1;
    }
    int failed = publish(conn, 1, 1);
    struct amb_msg *shown = take(sub);
    failed |= publish(conn, 2, 50); /* while that is shown */
    amb_msg_release(shown);
    shown = take(sub);
    failed |= publish(conn, 51, 100);
    amb_msg_release(shown);
    amb_msg_release(take(sub));
    amb_close(conn, AMB_SEC);
    return failed;
}
