/* SPDX-License-Identifier: Apache-2.0 */
/* The publisher sends GPU memory; this one reads on the host, which is the default wish. */
#include <amb/amb.h>
#include <stdio.h>

int main(void)
{
    struct amb_conn *conn;
    struct amb_sub *sub;
    struct amb_msg *msg;
    if (amb_connect(NULL, NULL, &conn) != AMB_OK ||
        amb_subscribe(conn, "weights", NULL, &sub) != AMB_OK) {
        return 1;
    }
    while (amb_next(sub, AMB_FOREVER, &msg) == AMB_OK) {
        const float *values = amb_msg_data(msg);
        const struct amb_tensor *tensor = amb_msg_tensor(msg);
        if (amb_msg_size(msg) >= sizeof(*values)) {
            printf("%g, rank %u, by %s\n", (double)values[0], tensor != NULL ? tensor->ndim : 0,
                   amb_msg_path(msg));
            (void)fflush(stdout);
        }
        amb_msg_release(msg);
    }
    (void)amb_close(conn, AMB_SEC);
    return 0;
}
