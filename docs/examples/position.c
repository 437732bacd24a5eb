/* SPDX-License-Identifier: Apache-2.0 */
/* Takes up to N messages (an argument) of prices.> and remembers its place in a file (another one).
 * Started again, it goes on there, and tells the messages that it has missed. */
#include <amb/amb.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: position FILE N\n");
        return 2;
    }
    unsigned char position[32768];
    FILE *file = fopen(argv[1], "rb");
    size_t have = file != NULL ? fread(position, 1, sizeof(position), file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    struct amb_error error = {0};
    struct amb_conn *conn;
    if (amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        fprintf(stderr, "connect: %s\n", error.text);
        return 1;
    }
    struct amb_sub *sub;
    enum amb_status status =
        amb_subscribe(conn, "prices.>",
                      AMB_SUB(.start = have != 0 ? AMB_START_POSITION : AMB_START_FIRST,
                              .position = have != 0 ? position : NULL, .position_len = have),
                      &sub);
    struct amb_msg *msg;
    for (int i = atoi(argv[2]); i > 0 && status == AMB_OK; i--) {
        status = amb_next(sub, 2 * AMB_SEC, &msg);
        if (status == AMB_OK) {
            enum amb_loss why;
            uint64_t lost = amb_msg_lost(msg, &why);
            if (why == AMB_LOSS_BROKER_RESTART) {
                printf("(the broker began anew)\n");
            } else if (lost != 0) {
                printf("(%" PRIu64 " missed)\n", lost);
            }
            printf("%s %.*s\n", amb_msg_topic(msg), (int)amb_msg_size(msg),
                   (const char *)amb_msg_data(msg));
            amb_msg_release(msg);
        }
    }
    size_t len = sizeof(position);
    if ((status == AMB_OK || status == AMB_ETIMEDOUT) &&
        (status = amb_sub_position(sub, position, &len)) == AMB_OK) {
        file = fopen(argv[1], "wb");
        if (file == NULL || fwrite(position, 1, len, file) != len || fclose(file) != 0) {
            perror(argv[1]);
            return 1;
        }
    }
    if (status != AMB_OK) {
        fprintf(stderr, "%s\n", amb_last_error(conn).text);
    }
    amb_close(conn, AMB_SEC);
    return status != AMB_OK;
}
