/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group whose members share the work by key. All orders of one customer go to one member, in
 * their order, whatever else is under way.
 */
#include <amb/amb.h>
#include <stdio.h>
#include <string.h>

#define MEMBERS 2
#define ROUNDS 4

static const char *const customers[] = {"ada", "bob", "cyd", "dee"};
enum {
    CUSTOMERS = sizeof(customers) / sizeof(customers[0])
};

/* The member that gets the orders of each customer; MEMBERS: more than one member has. */
static int who[CUSTOMERS] = {-1, -1, -1, -1};
static unsigned taken;

static void note(const struct amb_msg *msg, int member)
{
    const char *key = amb_msg_key(msg);
    for (int i = 0; key != NULL && i < CUSTOMERS; i++) {
        if (strcmp(key, customers[i]) == 0) {
            who[i] = who[i] < 0 || who[i] == member ? member : MEMBERS;
            taken++;
        }
    }
}

int main(void)
{
    struct amb_conn *conn;
    struct amb_sub *members[MEMBERS];
    struct amb_pub *pub;
    struct amb_msg *msg;
    if (amb_connect(NULL, NULL, &conn) != AMB_OK) {
        return 1;
    }
    enum amb_status status = amb_pub_open(conn, "keyed.orders", NULL, &pub);
    for (int i = 0; i < MEMBERS && status == AMB_OK; i++) {
        status = amb_subscribe(conn, "keyed.orders", AMB_SUB(.group = "clerks"), &members[i]);
    }
    for (int i = 0; i < ROUNDS * CUSTOMERS && status == AMB_OK; i++) {
        status =
            amb_pub_post(pub, AMB_OUT(.data = "order", .len = 5, .key = customers[i % CUSTOMERS]),
                         AMB_SEC, NULL);
    }
    if (status == AMB_OK) {
        status = amb_pub_flush(pub, 0, 5 * AMB_SEC);
    }
    if (status != AMB_OK) {
        fprintf(stderr, "%s\n", amb_last_error(conn).text);
        return 1;
    }
    for (int quiet = 0; taken < ROUNDS * CUSTOMERS && quiet < 100;) {
        quiet++;
        for (int i = 0; i < MEMBERS; i++) {
            while (amb_next(members[i], 20 * AMB_MS, &msg) == AMB_OK) {
                note(msg, i);
                amb_msg_release(msg);
                quiet = 0;
            }
        }
    }
    int shared = 0;
    for (int i = 0; i < CUSTOMERS; i++) {
        shared += who[i] < 0 || who[i] == MEMBERS;
    }
    printf("%u orders, %d customers with one member each\n", taken, CUSTOMERS - shared);
    amb_close(conn, AMB_SEC);
    return shared != 0 || taken != ROUNDS * CUSTOMERS;
}
