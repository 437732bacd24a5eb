/* SPDX-License-Identifier: Apache-2.0 */
/* Takes one image and hands it to a thread, which reads it where it lies, after the connection is
 * closed. */
#include <amb/amb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *consume(void *arg)
{
    struct amb_msg *msg = arg;
    const unsigned char *bytes = amb_msg_data(msg);
    const char *type = amb_msg_content_type(msg);
    size_t size = amb_msg_size(msg), same = 0;
    for (size_t i = 0; i < size; i++) {
        same += bytes[i] == bytes[0];
    }
    printf("%s: %zu bytes of %s, %zu of them %02x, came by %s\n", amb_msg_topic(msg), size,
           type != NULL ? type : "no type", same, size != 0 ? bytes[0] : 0u, amb_msg_path(msg));
    amb_msg_release(msg); /* From any thread, also after amb_close(). */
    return NULL;
}

int main(void)
{
    struct amb_conn *conn;
    struct amb_sub *sub;
    struct amb_msg *msg;
    struct amb_error error;
    if (amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        fprintf(stderr, "cannot connect: %s\n", error.text);
        return 1;
    }
    enum amb_status status =
        amb_subscribe(conn, "camera.*", AMB_SUB(.credit_bytes = (uint64_t)256 << 20), &sub);
    if (status == AMB_OK) {
        status = amb_next(sub, 60 * AMB_SEC, &msg);
    }
    if (status != AMB_OK) {
        fprintf(stderr, "no image: %s\n", amb_strerror(status));
        amb_close(conn, AMB_NOWAIT);
        return 1;
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, consume, msg) != 0) {
        abort();
    }
    amb_close(conn, AMB_SEC); /* The message that is held outlives it. */
    pthread_join(thread, NULL);
    return 0;
}
