/* SPDX-License-Identifier: Apache-2.0 */
/* Publishes an image without copying it: written where its readers will read it. */
#include <amb/amb.h>
#include <stdio.h>
#include <string.h>

#define IMAGE_SIZE ((size_t)64 << 20)

int main(void)
{
    struct amb_conn *conn;
    struct amb_error error;
    if (amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        fprintf(stderr, "cannot connect: %s\n", error.text);
        return 1;
    }
    struct amb_pub *pub;
    struct amb_lease *lease;
    enum amb_status status = amb_pub_open(conn, "camera.front", NULL, &pub);
    if (status == AMB_OK) {
        status = amb_lease(pub, IMAGE_SIZE, 10 * AMB_SEC, &lease);
    }
    if (status == AMB_OK) {
        memset(amb_lease_data(lease), 0x5a, IMAGE_SIZE);
        /* The lease is gone, whatever the answer. */
        status = amb_lease_commit(lease, AMB_OUT(.content_type = "image/raw"), NULL);
    }
    if (status != AMB_OK) {
        error = amb_last_error(conn);
        fprintf(stderr, "cannot publish: %s (%s)\n", amb_strerror(status), error.text);
    }
    /* Waits until the broker has it. */
    return (amb_close(conn, 10 * AMB_SEC) != AMB_OK) | (status != AMB_OK);
}
