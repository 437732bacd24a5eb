/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks a broker what broker-ctl would, again and again over one session, for tests that look many
 * times a second.
 *
 *     asker URL
 *
 * Standard input: a query a line ("clients"). Prints the answer, JSON on one line.
 */
#include <amb/amb.h>
#include <stdio.h>
#include <string.h>

/* The script that asks has its own limit: of a machine where a core is long in coming. */
#define PATIENCE_NS (120 * AMB_SEC)

int main(int argc, char **argv)
{
    struct amb_error error = {0};
    struct amb_conn *conn;
    if (argc != 2 ||
        amb_connect(argv[1],
                    AMB_OPTIONS(.name = "asker", .error = &error, .reconnect_attempts = AMB_NONE,
                                .connect_timeout_ns = PATIENCE_NS),
                    &conn) != AMB_OK) {
        (void)fprintf(stderr, "asker: %s\n", error.text);
        return 1;
    }
    char line[64];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        struct amb_msg *answer;
        line[strcspn(line, "\n")] = '\0';
        enum amb_status status = amb_admin(conn, line, PATIENCE_NS, &answer);
        if (status != AMB_OK) {
            (void)fprintf(stderr, "asker: %s: %s\n", line, amb_strerror(status));
            return 1;
        }
        (void)fwrite(amb_msg_data(answer), 1, amb_msg_size(answer), stdout);
        (void)fputc('\n', stdout);
        (void)fflush(stdout);
        amb_msg_release(answer);
    }
    return amb_close(conn, AMB_SEC) == AMB_OK ? 0 : 1;
}
