/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ZeroMQ in the bench of rates; see rates.h. Its broker is zmq_proxy in a process of its own,
 * between XSUB and XPUB. No queue has a limit, so nothing is dropped.
 */
#include "tests/bench/rates/rates.h"

#include <string.h>
#include <zmq.h>

static void *context, *peer;

static void must(const char *what, int rc)
{
    if (rc < 0) {
        rates_fail(what, zmq_strerror(zmq_errno()));
    }
}

static void *make(int type)
{
    const int unlimited = 0;
    if (context == NULL) {
        context = zmq_ctx_new();
    }
    void *made = zmq_socket(context, type);
    must("socket", made != NULL ? 0 : -1);
    must("option", zmq_setsockopt(made, ZMQ_SNDHWM, &unlimited, sizeof(unlimited)));
    must("option", zmq_setsockopt(made, ZMQ_RCVHWM, &unlimited, sizeof(unlimited)));
    return made;
}

/* XPUB is PUB that hears of its subscribers. */
static void open_publisher(const char *address)
{
    char subscription[sizeof(RATES_TOPIC) + 1];
    peer = make(ZMQ_XPUB);
    must("connect", zmq_connect(peer, address));
    must("wait", zmq_recv(peer, subscription, sizeof(subscription), 0));
}

static void publish(const void *data, size_t len)
{
    must("send", zmq_send(peer, data, len, 0));
}

/* ZeroMQ subscribes to first bytes: to none here, which costs the least. */
static void subscribe(const char *address)
{
    peer = make(ZMQ_SUB);
    must("subscribe", zmq_setsockopt(peer, ZMQ_SUBSCRIBE, "", 0));
    must("connect", zmq_connect(peer, address));
}

static void receive(void)
{
    zmq_msg_t msg;
    must("receive", zmq_msg_init(&msg));
    must("receive", zmq_msg_recv(&msg, peer, 0));
    rates_take(zmq_msg_data(&msg), zmq_msg_size(&msg));
    must("receive", zmq_msg_close(&msg));
}

static void proxy(const char *in, const char *out)
{
    void *from = make(ZMQ_XSUB), *to = make(ZMQ_XPUB);
    must("bind", zmq_bind(from, in));
    must("bind", zmq_bind(to, out));
    must("proxy", zmq_proxy(from, to, NULL));
}

const struct rates_system rates_zmq = {"zmq", open_publisher, publish, subscribe, receive, proxy};
