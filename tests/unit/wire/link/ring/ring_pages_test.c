/* SPDX-License-Identifier: Apache-2.0 */
/* Memory behind a ring: it comes with use, and goes when the ring is idle. */
#include "tests/support/link/link_peer.h"
#include "wire/link/ring/ring.h"
#include "wire/link/ring/ring_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIZE AMB_RING_SIZE_DEFAULT
#define PIECES 64 /* messages in flight at a time at most, of BODY bytes */
#define BODY 4096

static bool has_no_memory;

int madvise(void *at, size_t len, int advice)
{
    if (has_no_memory && advice != MADV_DONTFORK) {
        errno = ENOMEM;
        return -1;
    }
    return (int)syscall(SYS_madvise, at, len, advice);
}

struct couple {
    struct link_peer client, broker;
    int memory;
};

static void couple_init(struct couple *c)
{
    struct amb_ring_fds fds;
    link_peer_init(&c->client, &c->broker, false);
    link_peer_init(&c->broker, &c->client, true);
    assert_int_equal(amb_ring_create(SIZE, &link_peer_events, &c->broker, &fds, &c->broker.link),
                     AMB_OK);
    c->memory = dup(fds.memory);
    assert_int_equal(amb_ring_attach(SIZE, &fds, &link_peer_events, &c->client, &c->client.link),
                     AMB_OK);
}

static void couple_fini(struct couple *c)
{
    link_peer_close(&c->client);
    link_peer_close(&c->broker);
    link_peer_fini(&c->client);
    link_peer_fini(&c->broker);
    assert_int_equal(close(c->memory), 0);
}

static uint64_t bytes_of(const struct couple *c)
{
    struct stat st;
    assert_int_equal(fstat(c->memory, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

static bool is_small(const struct couple *c)
{
    return bytes_of(c) <= 2 * sizeof(struct ring_control) + 2 * UINT64_C(16) * 1024;
}

static void poll_all(struct couple *c)
{
    while (!link_peer_has_all(&c->client) || !link_peer_has_all(&c->broker)) {
        (void)amb_link_poll(c->client.link, 16);
        (void)amb_link_poll(c->broker.link, 16);
    }
    amb_link_flush(c->client.link);
    amb_link_flush(c->broker.link);
}

/* So many messages each way, each of which is compared on arrival. */
static void exchange(struct couple *c, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        (void)link_peer_send(&c->client, link_peer_type(&c->client, 0), BODY);
        (void)link_peer_send(&c->broker, link_peer_type(&c->broker, 0), BODY);
        amb_link_flush(c->client.link);
        amb_link_flush(c->broker.link);
        if (i % PIECES == PIECES - 1) {
            poll_all(c);
        }
    }
    poll_all(c);
}

static void test_an_idle_ring_costs_little_more_than_its_controls(void **state)
{
    (void)state;
    struct couple c;
    couple_init(&c);
    assert_true(is_small(&c));
    for (unsigned round = 0; round < 4; round++) {
        /* Not round the ring, round it, and on from anywhere. */
        exchange(&c, 100 + 17 * round + (round % 2) * 300);
        assert_false(is_small(&c));
        assert_false(amb_link_trim(c.client.link)); /* Something was sent since the last one. */
        assert_false(amb_link_trim(c.broker.link));
        assert_true(amb_link_trim(c.client.link));
        assert_true(amb_link_trim(c.broker.link));
        assert_true(is_small(&c));
        assert_false(amb_link_trim(c.client.link)); /* There is nothing more. */
    }
    exchange(&c, 1000);
    couple_fini(&c);
}

static void test_bytes_that_the_peer_has_not_read_stay(void **state)
{
    (void)state;
    struct couple c;
    couple_init(&c);
    exchange(&c, 100);
    (void)link_peer_send(&c.client, link_peer_type(&c.client, 0), BODY);
    assert_false(amb_link_trim(c.client.link));
    assert_false(amb_link_trim(c.client.link)); /* It was not even flushed. */
    amb_link_flush(c.client.link);
    assert_false(amb_link_trim(c.client.link));
    poll_all(&c);
    assert_true(amb_link_trim(c.client.link));
    exchange(&c, 1000);
    couple_fini(&c);
}

/* Where the first writes would otherwise end the process. */
static void test_a_ring_that_gets_no_memory_goes_down(void **state)
{
    (void)state;
    struct couple c;
    couple_init(&c);
    exchange(&c, 1);
    has_no_memory = true;
    for (unsigned i = 0; i < 100; i++) {
        (void)link_peer_send(&c.client, link_peer_type(&c.client, 0), BODY);
    }
    amb_link_flush(c.client.link);
    has_no_memory = false;
    assert_int_equal(c.client.downs, 1);
    assert_int_equal(c.client.down_status, AMB_ENOMEM);
    couple_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_idle_ring_costs_little_more_than_its_controls),
        cmocka_unit_test(test_bytes_that_the_peer_has_not_read_stay),
        cmocka_unit_test(test_a_ring_that_gets_no_memory_goes_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
