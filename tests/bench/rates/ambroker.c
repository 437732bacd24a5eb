/* SPDX-License-Identifier: Apache-2.0 */
/* Ambroker in the bench of rates, with default options; see rates.h. The link is the URL's. */
#include "tests/bench/rates/rates.h"

#include <amb/amb.h>

#define WAIT_NS (20 * AMB_SEC)

static struct amb_conn *conn;
static struct amb_pub *pub;
static struct amb_sub *sub;

static void must(const char *what, enum amb_status status)
{
    if (status != AMB_OK) {
        rates_fail(what, amb_strerror(status));
    }
}

static void open_publisher(const char *address)
{
    must("connect", amb_connect(address, NULL, &conn));
    must("open", amb_pub_open(conn, RATES_TOPIC, NULL, &pub));
    must("wait", amb_pub_wait_subscribers(pub, 1, WAIT_NS));
}

static void publish(const void *data, size_t len)
{
    must("send", amb_pub_send(pub, data, len, WAIT_NS));
    enum amb_status status = amb_pub_flush(pub, 0, AMB_NOWAIT);
    if (status != AMB_EAGAIN) { /* it has left and is not settled */
        must("flush", status);
    }
}

static void subscribe(const char *address)
{
    must("connect", amb_connect(address, NULL, &conn));
    must("subscribe", amb_subscribe(conn, RATES_TOPIC, NULL, &sub));
}

static void receive(void)
{
    struct amb_msg *msg = NULL;
    must("receive", amb_next(sub, AMB_FOREVER, &msg));
    rates_take(amb_msg_data(msg), amb_msg_size(msg));
    amb_msg_release(msg);
}

const struct rates_system rates_ambroker = {"ambroker", open_publisher, publish,
                                            subscribe,  receive,        NULL};
