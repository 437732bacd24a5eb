/* SPDX-License-Identifier: Apache-2.0 */
/* Two who write to one ledger, each only behind what it has read: compare and set. */
#include <amb/amb.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Writes one line that must get this sequence; 0: any. */
static enum amb_status write_line(struct amb_pub *pub, const char *text, uint64_t expect)
{
    uint64_t seq;
    enum amb_status status = amb_pub_post(
        pub, AMB_OUT(.data = text, .len = strlen(text), .expect_seq = expect), 5 * AMB_SEC, &seq);
    return status == AMB_OK ? amb_pub_flush(pub, seq, 5 * AMB_SEC) : status;
}

/* Where the ledger ends, for somebody who reads it. */
static uint64_t read_line(struct amb_sub *sub)
{
    struct amb_msg *msg;
    uint64_t seq = 0;
    if (amb_next(sub, 5 * AMB_SEC, &msg) == AMB_OK) {
        printf("%.*s\n", (int)amb_msg_size(msg), (const char *)amb_msg_data(msg));
        seq = amb_msg_seq(msg);
        amb_msg_release(msg);
    }
    return seq;
}

int main(void)
{
    struct amb_conn *conn;
    struct amb_sub *sub;
    struct amb_pub *alice, *bob;
    if (amb_connect(NULL, NULL, &conn) != AMB_OK) {
        return 1;
    }
    if (amb_subscribe(conn, "ledger", NULL, &sub) != AMB_OK ||
        amb_pub_open(conn, "ledger", NULL, &alice) != AMB_OK ||
        amb_pub_open(conn, "ledger", NULL, &bob) != AMB_OK) {
        fprintf(stderr, "%s\n", amb_last_error(conn).text);
        return 1;
    }
    int failed = write_line(alice, "opened", 0) != AMB_OK;
    uint64_t last = read_line(sub); /* Both have read it. */
    failed |= write_line(alice, "alice: 10", last + 1) != AMB_OK;
    enum amb_status late = write_line(bob, "bob: 7", last + 1);
    printf("bob was too late: %s\n", late == AMB_EREJECTED ? "yes" : amb_strerror(late));
    last = read_line(sub); /* So he reads what alice wrote, and writes behind it. */
    failed |= write_line(bob, "bob: 17", last + 1) != AMB_OK;
    (void)read_line(sub);
    amb_close(conn, AMB_SEC);
    return failed;
}
