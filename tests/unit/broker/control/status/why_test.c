/* SPDX-License-Identifier: Apache-2.0 */
/* Clients by hand, on a control thread's data without a thread. */
#include "broker/control/status/why.h"

#include "broker/config/config.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/control.h"
#include "broker/shard/shard.h"
#include "wire/config/transports.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct amb_config config;
static struct amb_transports transports;
static struct amb_shard shard;
static struct amb_shard *shards[] = {&shard};
static struct amb_control control;
static struct amb_client client;

static int prepare(void **state)
{
    (void)state;
    memset(&config, 0, sizeof(config));
    memset(&transports, 0, sizeof(transports));
    memset(&control, 0, sizeof(control));
    memset(&client, 0, sizeof(client));
    control.config = &config;
    control.transports = &transports;
    control.shards = shards;
    control.shard_count = 1;
    control.host = 1;
    control.pid_ns = 10;
    control.ipc_ns = 20;
    client.control = &control;
    client.fd = -1;
    client.wish = AMB_LINK_ANY;
    client.knows_process = true;
    client.place.host = 2;
    return 0;
}

static void has(const char *words)
{
    char why[AMB_WHY_MAX];
    amb_why_link(&client, "ucx tcp/eth0", why);
    if (words == NULL ? why[0] != '\0' : strstr(why, words) == NULL) {
        fail_msg("'%s' has not '%s'", why, words == NULL ? "nothing" : words);
    }
}

static void a_ring_is_the_best(void **state)
{
    (void)state;
    client.is_unix = true;
    client.link = AMB_LINK_RING;
    has(NULL);
    client.knows_process = false;
    has("nothing is mapped");
}

static void a_unix_socket_without_a_ring_has_its_reason(void **state)
{
    (void)state;
    client.is_unix = true;
    client.link = AMB_LINK_STREAM;
    client.wish = AMB_LINK_STREAM;
    has("the URL asks for link=stream");
    client.wish = AMB_LINK_ANY;
    client.link_reason = "this kernel has none";
    has("this kernel has none");
    client.link_reason = NULL;
    client.link = client.wish = AMB_LINK_UCX;
    has("link=ucx, not a ring");
}

static void a_client_of_this_host_is_shown_the_socket(void **state)
{
    (void)state;
    client.link = AMB_LINK_STREAM;
    client.place.host = control.host;
    has("no unix:// listener");
    control.listeners[1].url.scheme = AMB_URL_UNIX;
    control.listeners[0].url.scheme = AMB_URL_TCP;
    (void)strcpy(control.listeners[1].url.path, "/run/x.sock");
    control.listener_count = 2;
    has("unix:///run/x.sock gives it a ring");
    client.place.pid_ns = 11;
    has("share that folder with its container");
    /* For any link of it, and any transports.tcp. */
    config.transports.tcp = AMB_SWITCH_ON;
    client.link = client.wish = AMB_LINK_UCX;
    has("unix:///run/x.sock gives it a ring");
}

static void a_remote_stream_says_what_ucx_lacks(void **state)
{
    (void)state;
    client.link = AMB_LINK_STREAM;
    client.ucx_obstacle = "no interface is trusted";
    has("no ucx link: no interface is trusted");
    client.ucx_obstacle = NULL;
    has("a ucx link is not asked for");
    client.wish = AMB_LINK_STREAM;
    has("the URL asks for link=stream");
}

static void a_ucx_link_says_what_rdma_lacks(void **state)
{
    (void)state;
    client.link = AMB_LINK_UCX;
    config.transports.infiniband = AMB_SWITCH_OFF;
    has("no RDMA: transports.infiniband is off");
    config.transports.infiniband = AMB_SWITCH_AUTO;
    has("no RDMA: the broker has no ucx links");
    transports.why_not = "this one";
    has("no RDMA: this one");
    control.ucx = (struct amb_ucx_context *)(uintptr_t)&transports; /* Not looked into. */
    has("no interface of transports.trusted has an RDMA device");
    transports.has_rdma = true;
    has("no InfiniBand module"); /* No UCX is loaded here. */
    char why[AMB_WHY_MAX];
    amb_why_link(&client, "ucx rc_mlx5/mlx5_0:1", why);
    assert_string_equal(why, "");
}

/* A connection of this machine with itself, and one with another address of it. */
static void addresses_tell_who_is_near(void **state)
{
    (void)state;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listener, 4), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    assert_false(amb_why_is_near(&client));
    for (uint32_t i = 0; i < 2; i++) {
        struct sockaddr_in from = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK + i)};
        int end = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(bind(end, (struct sockaddr *)&from, sizeof(from)), 0);
        assert_int_equal(connect(end, (struct sockaddr *)&at, sizeof(at)), 0);
        client.fd = accept(listener, NULL, NULL);
        assert_true(client.fd >= 0);
        assert_int_equal(amb_why_is_near(&client), i == 0);
        (void)close(client.fd);
        (void)close(end);
    }
    (void)close(listener);
    client.fd = -1;
    client.place.host = control.host;
    assert_true(amb_why_is_near(&client));
    client.place.host = control.host = 0; /* Neither knows. */
    assert_false(amb_why_is_near(&client));
}

static void gpu_memory_has_its_reasons(void **state)
{
    (void)state;
    client.link = AMB_LINK_RING;
    client.is_unix = true;
    assert_non_null(strstr(amb_why_no_nvlink(&client), "no GPU memory (memory.cuda.size)"));
}

#define T(test) cmocka_unit_test_setup(test, prepare)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(a_ring_is_the_best),
        T(a_unix_socket_without_a_ring_has_its_reason),
        T(a_client_of_this_host_is_shown_the_socket),
        T(a_remote_stream_says_what_ucx_lacks),
        T(a_ucx_link_says_what_rdma_lacks),
        T(addresses_tell_who_is_near),
        T(gpu_memory_has_its_reasons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
