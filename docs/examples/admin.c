/* SPDX-License-Identifier: Apache-2.0 */
/* The broker's word on itself, as JSON: "status", or the query of the command line. */
#include <amb/amb.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct amb_error error = {0};
    struct amb_conn *conn;
    struct amb_msg *json;
    if (amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        fprintf(stderr, "connect: %s\n", error.text);
        return 1;
    }
    enum amb_status status = amb_admin(conn, argc > 1 ? argv[1] : "status", 5 * AMB_SEC, &json);
    if (status == AMB_OK) {
        printf("%.*s\n", (int)amb_msg_size(json), (const char *)amb_msg_data(json));
        amb_msg_release(json);
    } else {
        fprintf(stderr, "%s\n", amb_last_error(conn).text);
    }
    amb_close(conn, AMB_NOWAIT);
    return status != AMB_OK;
}
