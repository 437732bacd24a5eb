/* SPDX-License-Identifier: Apache-2.0 */
/* Messages come without their payloads; of the one that matters a range is read. */
#include <amb/amb.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    struct amb_conn *conn;
    struct amb_sub *sub;
    struct amb_msg *msg;
    static float row[4096];
    if (amb_connect(NULL, NULL, &conn) != AMB_OK ||
        amb_subscribe(conn, "weights.>", AMB_SUB(.lazy = 1), &sub) != AMB_OK) {
        return 1;
    }
    while (amb_next(sub, 10 * AMB_SEC, &msg) == AMB_OK) {
        const char *layer = amb_msg_prop(msg, "layer", NULL);
        int is_wanted = layer != NULL && strcmp(layer, "lm_head") == 0;
        printf("%s: %s, %zu bytes\n", amb_msg_topic(msg), layer != NULL ? layer : "?",
               amb_msg_size(msg));
        if (is_wanted && amb_msg_size(msg) >= 8 * sizeof(row)) {
            enum amb_status status =
                amb_msg_read(msg, 7 * sizeof(row), row, sizeof(row), AMB_SEC); /* As pread(). */
            printf("row 7: %s %g\n", amb_strerror(status), (double)row[0]);
        }
        fflush(stdout);
        amb_msg_release(msg); /* The rest of the payload never moved. */
        if (is_wanted) {
            break;
        }
    }
    return amb_close(conn, AMB_SEC) != AMB_OK;
}
