/* SPDX-License-Identifier: Apache-2.0 */
/* URLs that contradict themselves, and links that are not what was demanded. */
#include "client/session/insist.h"

#include "wire/link/link.h"
#include "wire/mem/cuda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct amb_error error;

static struct amb_url parse(const char *text)
{
    struct amb_url url;
    if (amb_url_parse(text, &url, error.text, sizeof(error.text)) != AMB_OK) {
        fail_msg("%s: %s", text, error.text);
    }
    error = (struct amb_error){0};
    return url;
}

/* words NULL: it may be so. */
static void try_url(const char *text, const char *words)
{
    const struct amb_url url = parse(text);
    enum amb_status status = amb_insist_url(&url, &error);
    assert_int_equal(status, words == NULL ? AMB_OK : AMB_EINVAL);
    assert_int_equal(error.status, status);
    if (words != NULL && strstr(error.text, words) == NULL) {
        fail_msg("%s: %s", text, error.text);
    }
}

static void a_url_may_not_contradict_itself(void **state)
{
    (void)state;
    try_url("unix:///a", NULL);
    try_url("tcp://h:1", NULL);
    try_url("unix:///a?expect=ring&expect=zero-copy&expect=nvlink", NULL);
    try_url("unix:///a?link=ring&expect=ring", NULL);
    try_url("unix:///a?link=ucx&expect=rdma", NULL);
    try_url("tcp://h:1?expect=rdma&expect=nvlink", NULL);
    try_url("tcp://h:1?link=ucx&expect=rdma", NULL);
    try_url("tcp://h:1?expect=ring", "expect=ring: shared memory needs a unix:// URL");
    try_url("tcp://h:1?expect=zero-copy", "expect=zero-copy: shared memory needs");
    try_url("unix:///a?link=stream&expect=ring", "link=stream");
    try_url("unix:///a?link=ucx&expect=zero-copy", "link=ucx");
    try_url("unix:///a?expect=rdma", "leads to a ring");
    try_url("tcp://h:1?link=stream&expect=rdma", "leads to a stream");
    try_url("tcp://h:1?link=stream&expect=nvlink", "host memory alone");
    try_url("tls://h:1?expect=rdma", "leads to a stream");
    try_url("tls://h:1?expect=nvlink", "host memory alone");
    try_url("unix:///a?expect=ring&expect=rdma", "expect=rdma");
}

static const char *lanes;

static void describe(const struct amb_link *link, char *out, size_t size)
{
    (void)link;
    (void)snprintf(out, size, "%s", lanes);
}

static void try_session(const char *text, enum amb_link_kind kind, const char *has, bool may_map,
                        const char *words)
{
    const struct amb_link_ops ops = {.kind = kind, .describe = describe};
    struct amb_link link = {.ops = &ops};
    struct amb_conn *conn = calloc(1, sizeof(*conn));
    const struct amb_url url = parse(text);
    assert_non_null(conn);
    conn->link = &link;
    lanes = has;
    enum amb_status status = amb_insist_session(conn, &error, &url, may_map);
    free(conn);
    assert_int_equal(status, words == NULL ? AMB_OK : AMB_ENOTSUP);
    if (words != NULL && strstr(error.text, words) == NULL) {
        fail_msg("%s: %s", text, error.text);
    }
}

/* Also of a broker that knows nothing of demands. */
static void a_link_is_what_was_demanded(void **state)
{
    (void)state;
    try_session("unix:///a", AMB_LINK_STREAM, "stream", false, NULL);
    try_session("unix:///a?expect=ring", AMB_LINK_RING, "ring 1024 KiB", false, NULL);
    try_session("unix:///a?expect=ring", AMB_LINK_STREAM, "stream", false,
                "expect=ring: the broker gave another link: stream");
    try_session("unix:///a?expect=zero-copy", AMB_LINK_RING, "ring", true, NULL);
    try_session("unix:///a?expect=zero-copy", AMB_LINK_RING, "ring", false, "map nothing");
    try_session("tcp://h:1?expect=rdma", AMB_LINK_UCX, "ucx rc_mlx5/mlx5_0:1", false, NULL);
    try_session("tcp://h:1?expect=rdma", AMB_LINK_UCX, "ucx tcp/eth0", false,
                "expect=rdma: UCX has chosen no lane of RDMA: ucx tcp/eth0");
    try_session("tcp://h:1?expect=rdma", AMB_LINK_STREAM, "stream", false,
                "no lane of RDMA: stream");
}

static void gpu_memory_needs_a_driver(void **state)
{
    (void)state;
    assert_int_equal(setenv(AMB_CUDA_LIBRARY_ENV, "/nowhere", 1), 0);
    try_session("unix:///a?expect=nvlink", AMB_LINK_RING, "ring", true,
                "expect=nvlink: this process has no CUDA driver");
}

#define T(test) cmocka_unit_test(test)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(a_url_may_not_contradict_itself),
        T(a_link_is_what_was_demanded),
        T(gpu_memory_needs_a_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
