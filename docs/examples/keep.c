/* SPDX-License-Identifier: Apache-2.0 */
/* A publisher that goes on reading its messages after they have left, and after the end of all. */
#include <amb/amb.h>
#include <stdio.h>
#include <string.h>

#define FRAME ((size_t)1 << 20)
#define FRAMES 5

int main(void)
{
    struct amb_conn *conn;
    struct amb_pub *pub;
    struct amb_keep *keeps[FRAMES] = {NULL};
    const char *frames[FRAMES] = {NULL};
    if (amb_connect(NULL, NULL, &conn) != AMB_OK) {
        return 1;
    }
    enum amb_status status = amb_pub_open(conn, "frames", NULL, &pub);
    for (int i = 0; status == AMB_OK && i < FRAMES; i++) {
        struct amb_lease *lease;
        status = amb_lease(pub, FRAME, 10 * AMB_SEC, &lease);
        if (status != AMB_OK) {
            break;
        }
        memset(amb_lease_data(lease), 'a' + i, FRAME);
        frames[i] = amb_lease_data(lease);
        status = amb_lease_keep(lease, &keeps[i]); /* Before the commit, which ends the lease. */
        if (status != AMB_OK) {
            amb_lease_abandon(lease);
            break;
        }
        status = amb_lease_commit(lease, NULL, NULL);
    }
    /* Readers have them, or had them. They are still ours to read, and no other lease lies there.
     */
    if (amb_close(conn, 10 * AMB_SEC) != AMB_OK) {
        status = AMB_ELOST;
    }
    for (int i = 0; i < FRAMES; i++) {
        printf("%c", frames[i] != NULL ? frames[i][FRAME - 1] : '-');
        amb_lease_unkeep(keeps[i]);
    }
    printf(" %s\n", amb_strerror(status));
    return status != AMB_OK;
}
