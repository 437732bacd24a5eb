/* SPDX-License-Identifier: Apache-2.0 */
/* Clients and topics that demand a way: it is there, or they hear what is missing. */
#include "broker/control/requests/demand.h"

#include "tests/support/door/door_harness.h"
#include "wire/base/host.h"
#include "wire/codec/expect.h"

#include <string.h>

/* No broker runs there. */
#define OTHER_HOST UINT64_C(77)

struct hello {
    bool is_unix;
    const char *link;
    uint32_t expect;
    uint64_t host;
    const char *missing; /* NULL: it is welcome */
    bool is_known;       /* ... before Auth */
};

#define EARLY true
#define LATE false

static void check_hello(const struct door *door, const struct hello *hello)
{
    struct door_client client;
    if (hello->is_unix) {
        door_connect_unix(door, &client);
    } else {
        door_connect_tcp(door, &client);
    }
    door_send_hello_with(&client, hello->link, hello->expect, hello->host);
    if (!hello->is_known) {
        amb_control_free(door_expect(&client, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
        door_send_auth(&client, NULL);
    }
    if (hello->missing == NULL) {
        amb_control_free(door_expect(&client, AMB__CONTROL__CONTROL__BODY_WELCOME));
    } else {
        door_expect_error(&client, 0, AMB_ENOTSUP, hello->missing);
        door_expect_closed(&client);
    }
    door_disconnect(&client);
}

static void a_session_is_as_it_was_demanded_or_refused(void **state)
{
    (void)state;
    static const struct hello hellos[] = {
        {true, "", AMB_EXPECT_RING, 0, NULL, LATE},
        {true, "", AMB_EXPECT_RING | AMB_EXPECT_ZERO_COPY, 0, NULL, LATE},
        {true, "ring", AMB_EXPECT_ZERO_COPY, 0, NULL, LATE},
        {true, "stream", AMB_EXPECT_RING, 0, "expect=ring: the URL asks for link=stream", LATE},
        {true, "stream", AMB_EXPECT_ZERO_COPY, 0, "expect=zero-copy: the URL asks for", LATE},
        {true, "", AMB_EXPECT_RDMA, 0, "expect=rdma: a unix:// URL leads to a ring", LATE},
        {true, "", AMB_EXPECT_NVLINK, 0, "expect=nvlink: the broker has no GPU memory", LATE},
        {false, "", AMB_EXPECT_RING, 0, "expect=ring: the client is on the broker's host: unix://",
         LATE},
        {false, "", AMB_EXPECT_ZERO_COPY, 0, "the broker's host", LATE},
        {false, "", AMB_EXPECT_RDMA, 0, "expect=rdma: the broker trusts no interface", LATE},
        {false, "stream", AMB_EXPECT_NVLINK, 0, "expect=nvlink: the broker has no GPU memory",
         LATE},
        {false, "stream", 0, OTHER_HOST, NULL, LATE},
        {true, "", AMB_EXPECT_ALL + 1, 0, "ring, zero-copy, rdma or nvlink alone", EARLY},
        {true, "", UINT32_MAX, 0, "this broker knows", EARLY},
    };
    static const char *const options[] = {"transports.trusted=", NULL};
    for (size_t i = 0; i < sizeof(hellos) / sizeof(hellos[0]); i++) {
        struct door door; /* Of its own: the messages of a former session would count. */
        door_open(&door, options);
        check_hello(&door, &hellos[i]);
        door_close(&door);
    }
}

static void nobody_hears_a_reason_without_the_token(void **state)
{
    (void)state;
    static const char *const options[] = {"auth.token=t", NULL};
    struct door door;
    struct door_client client;
    door_open(&door, options);
    door_connect_tcp(&door, &client);
    door_send_hello_with(&client, "", AMB_EXPECT_RING, 0);
    amb_control_free(door_expect(&client, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    door_send_auth(&client, NULL);
    door_expect_error(&client, 0, AMB_EAUTH, "");
    door_disconnect(&client);
    door_close(&door);
}

static uint64_t ask_subscribe(struct door_client *client, const char *pattern, uint32_t copy,
                              uint32_t lazy)
{
    Amb__Control__Subscribe subscribe;
    amb__control__subscribe__init(&subscribe);
    subscribe.handle = 7;
    subscribe.pattern = (char *)(uintptr_t)pattern;
    subscribe.copy = copy;
    subscribe.lazy = lazy;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_SUBSCRIBE;
    message.subscribe = &subscribe;
    return door_ask(client, &message);
}

static void subscribe_refused(struct door_client *client, const char *pattern, const char *missing)
{
    uint64_t id = ask_subscribe(client, pattern, 0, AMB_LAZY_OFF);
    door_expect_error(client, id, AMB_ENOTSUP, missing);
}

static void without_room_nothing_is_in_place(void **state)
{
    (void)state;
    static const char *const options[] = {"limits.max_mapped_per_session=0",
                                          "topics=( { match = \"z.>\"; expect = \"zero-copy\"; } )",
                                          NULL};
    static const struct hello no = {.is_unix = true,
                                    .link = "",
                                    .expect = AMB_EXPECT_ZERO_COPY,
                                    .missing = "max_mapped_per_session"};
    static const struct hello ring = {.is_unix = true, .link = "", .expect = AMB_EXPECT_RING};
    struct door door;
    door_open(&door, options);
    check_hello(&door, &no);
    check_hello(&door, &ring);
    struct door_client client; /* It demands nothing, and a topic does. */
    door_login_unix(&door, &client);
    subscribe_refused(&client, "z.a", "of z.>: the client may hold nothing in place");
    subscribe_refused(&client, ">", "max_mapped_per_session");
    door_pub_open(&client, 0, "z.a"); /* It may write in place all the same. */
    door_disconnect(&client);
    door_close(&door);
}

#define RULES                                                                                      \
    "topics=( { match = \"r.>\"; expect = \"ring\"; }, { match = \"z.>\"; expect = "               \
    "\"zero-copy\"; }, { match = \"v.>\"; expect = \"zero-copy\"; trust = \"verify\"; }, { match " \
    "= \"d.>\"; expect = \"rdma\"; }, { match = \"g.>\"; expect = \"nvlink\"; } )"

static void open_refused(struct door_client *client, const char *topic, const char *missing)
{
    uint64_t id = door_ask_pub_open(client, 0, topic);
    door_expect_error(client, id, AMB_ENOTSUP, missing);
}

static void topics_demand_of_local_clients(void **state)
{
    (void)state;
    static const char *const options[] = {RULES, NULL};
    struct door door;
    struct door_client client;
    door_open(&door, options);
    door_login_unix(&door, &client);
    open_refused(&client, "v.a", "topics.expect = \"zero-copy\" of v.>: the topic copies");
    open_refused(&client, "d.a", "topics.expect = \"rdma\" of d.>: a unix:// URL");
    open_refused(&client, "g.a", "topics.expect = \"nvlink\" of g.>: the broker has no GPU memory");
    door_pub_open(&client, 0, "r.a"); /* The handle is free still. */
    door_pub_open(&client, 1, "z.a");
    door_pub_open(&client, 2, "other");
    uint64_t id = ask_subscribe(&client, "z.a", 1, AMB_LAZY_OFF);
    door_expect_error(&client, id, AMB_ENOTSUP, "the subscription asks for copies");
    subscribe_refused(&client, "g.a", "of g.>: the subscription asks for host memory (mem)");
    id = ask_subscribe(&client, "g.a", 0, AMB_LAZY_PIN);
    door_expect_error(&client, id, AMB_ENOTSUP, "comes by host memory (lazy)");
    subscribe_refused(&client, "d.*", "rdma");
    subscribe_refused(&client, "*.a", "rdma");             /* The first that it touches. */
    id = ask_subscribe(&client, ">", 0, AMB_LAZY_HEADERS); /* No payload comes. */
    door_expect_ok(&client, id);
    door_subscribe(&client, 1, "z.*");
    door_subscribe(&client, 2, "o.>");
    door_subscribe(&client, 3, "$SYS.>");
    door_disconnect(&client);
    door_close(&door);
}

static void topics_demand_of_remote_clients(void **state)
{
    (void)state;
    static const char *const options[] = {RULES, NULL};
    struct door door;
    struct door_client client;
    door_open(&door, options);
    door_connect_tcp(&door, &client);
    door_login(&client, "", NULL);
    open_refused(&client, "r.a", "of r.>: the client is on the broker's host: unix://");
    open_refused(&client, "z.a", "unix://");
    open_refused(&client, "g.a", "nvlink");
    subscribe_refused(&client, "z.a", "unix://");
    subscribe_refused(&client, ">", "ring");
    door_pub_open(&client, 0, "other");
    door_subscribe(&client, 0, "other");
    door_disconnect(&client);
    door_close(&door);
}

#define T(test) cmocka_unit_test(test)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(a_session_is_as_it_was_demanded_or_refused),
        T(nobody_hears_a_reason_without_the_token),
        T(without_room_nothing_is_in_place),
        T(topics_demand_of_local_clients),
        T(topics_demand_of_remote_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
