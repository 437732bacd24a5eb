/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocators for each kind of memory: a message goes to the one of the kind that it was sent from.
 * A fake broker says the kinds, and a fake driver has the memory.
 */
#include "client/message/landing_private.h"
#include "client/message/sub.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/unit/client/session.h"

#include "wire/mem/cuda.h"

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define KINDS 4u

static struct fake_options mapping = {.max_message = 8 << 20};

static CUcontext context;

static const enum amb_mem kinds[KINDS] = {AMB_MEM_HOST, AMB_MEM_PINNED, AMB_MEM_CUDA,
                                          AMB_MEM_CUDA_MANAGED};

static enum amb_mem kind_of(const void *memory)
{
    struct amb_mem_place place;
    amb_cuda_classify(memory, &place);
    return place.mem;
}

/* ---- allocators: a piece of 256 bytes of each kind ---- */

static struct own {
    enum amb_mem mem;
    CUdeviceptr memory;
    int device;
    atomic_uint gave, took, asked;
    atomic_bool is_out, is_empty;
} owns[KINDS];

static void *own_alloc(void *ctx, size_t len, size_t align, int device)
{
    struct own *own = ctx;
    bool is_in = false;
    own->asked++;
    own->device = device;
    if (len > 256 || align > 256 || own->is_empty ||
        !atomic_compare_exchange_strong(&own->is_out, &is_in, true)) {
        return NULL;
    }
    own->gave++;
    return (void *)(uintptr_t)own->memory;
}

static void own_free(void *ctx, void *ptr, size_t len, int device)
{
    struct own *own = ctx;
    (void)len;
    assert_int_equal((uintptr_t)ptr, own->memory);
    assert_int_equal(device, own->device);
    own->took++;
    own->is_out = false;
}

static int owns_make(void **state)
{
    (void)state;
    for (unsigned i = 0; i < KINDS; i++) {
        void *host = NULL;
        memset(&owns[i], 0, sizeof(owns[i]));
        owns[i].mem = kinds[i];
        if (kinds[i] == AMB_MEM_CUDA) {
            assert_int_equal(cuMemAlloc(&owns[i].memory, 256), CUDA_SUCCESS);
        } else if (kinds[i] == AMB_MEM_CUDA_MANAGED) {
            assert_int_equal(cuMemAllocManaged(&owns[i].memory, 256, CU_MEM_ATTACH_GLOBAL),
                             CUDA_SUCCESS);
        } else if (kinds[i] == AMB_MEM_PINNED) {
            assert_int_equal(cuMemHostAlloc(&host, 256, 0), CUDA_SUCCESS);
        } else {
            host = aligned_alloc(256, 256);
            assert_non_null(host);
        }
        owns[i].memory = host != NULL ? (uintptr_t)host : owns[i].memory;
    }
    return 0;
}

static int owns_free(void **state)
{
    (void)state;
    for (unsigned i = 0; i < KINDS; i++) {
        void *host = (void *)(uintptr_t)owns[i].memory;
        assert_int_equal(owns[i].gave, owns[i].took);
        if (kinds[i] == AMB_MEM_HOST) {
            free(host);
        } else {
            assert_int_equal(kinds[i] == AMB_MEM_PINNED ? cuMemFreeHost(host)
                                                        : cuMemFree(owns[i].memory),
                             CUDA_SUCCESS);
        }
    }
    return 0;
}

/* Allocators of the first `count` kinds from `first` on. */
static void allocators_of(struct amb_allocator *to, unsigned first, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        to[i] = (struct amb_allocator)AMB_INIT(amb_allocator);
        to[i].mem = kinds[first + i];
        to[i].alloc = own_alloc;
        to[i].free = own_free;
        to[i].ctx = &owns[first + i];
    }
}

static struct amb_sub *subscribe(struct session *s, unsigned first, unsigned count,
                                 enum amb_fallback fallback)
{
    struct amb_allocator allocators[KINDS];
    struct amb_sub *sub;
    allocators_of(allocators, first, count);
    assert_int_equal(
        amb_subscribe(s->conn, "t.>",
                      AMB_SUB(.mem = AMB_MEM_AS_SENT, .device = 1, .allocators = allocators,
                              .allocator_count = count, .fallback = fallback),
                      &sub),
        AMB_OK);
    return sub;
}

static struct amb_msg *next(struct amb_sub *sub)
{
    struct amb_msg *msg;
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    return msg;
}

/* A message that says that it was sent from such memory. */
static struct amb_msg *take(struct session *s, struct amb_sub *sub, enum amb_mem mem, uint64_t seq)
{
    fake_broker_kind(s->fake, mem);
    fake_broker_deliver(s->fake, 0, 1, "m", 1, seq, 0);
    return next(sub);
}

static void assert_lies(struct amb_msg *msg, const struct own *own)
{
    char bytes[2];
    bool is_on_gpu = own->mem == AMB_MEM_CUDA || own->mem == AMB_MEM_CUDA_MANAGED;
    const void *at = own->mem == AMB_MEM_HOST ? amb_msg_data(msg) : amb_msg_data_on(msg, NULL);
    assert_int_equal((uintptr_t)at, own->memory);
    assert_int_equal(amb_msg_mem(msg), own->mem);
    assert_int_equal(kind_of(at), own->mem);
    assert_int_equal(own->device, is_on_gpu ? 1 : -1);
    assert_int_equal(amb_msg_device(msg), own->device);
    if (own->mem == AMB_MEM_CUDA) {
        assert_null(amb_msg_data(msg));
        assert_true(fakecuda_peek(own->memory, bytes, 2));
        assert_memory_equal(bytes, "m0", 2);
    } else {
        assert_payload(msg, "m0");
    }
}

static void each_kind_goes_to_its_allocator(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_sub *sub = subscribe(&s, 0, KINDS, AMB_FALLBACK_IN_PLACE);
    for (uint64_t n = 0; n < 3 * KINDS; n++) {
        struct own *own = &owns[n % KINDS];
        struct amb_msg *msg = take(&s, sub, own->mem, n + 1);
        assert_lies(msg, own);
        amb_msg_release(msg);
        assert_int_equal(own->took, n / KINDS + 1);
    }
    session_close(&s);
}

static void a_publisher_that_says_no_kind_has_host_memory(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_sub *sub = subscribe(&s, 0, KINDS, AMB_FALLBACK_IN_PLACE);
    struct amb_msg *msg = take(&s, sub, AMB_MEM_DEFAULT, 1);
    assert_lies(msg, &owns[0]);
    amb_msg_release(msg);
    session_close(&s);
}

static void a_kind_without_one_stays_where_it_came(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_sub *sub = subscribe(&s, 2, 1, AMB_FALLBACK_IN_PLACE); /* CUDA alone */
    for (unsigned i = 0; i < KINDS; i++) {
        struct amb_msg *msg = take(&s, sub, kinds[i], i + 1);
        if (kinds[i] == AMB_MEM_CUDA) {
            assert_lies(msg, &owns[2]);
        } else {
            assert_payload(msg, "m0");
            assert_int_equal(amb_msg_mem(msg), AMB_MEM_HOST);
        }
        amb_msg_release(msg);
    }
    session_close(&s);
}

static void or_comes_to_the_host_s_allocator(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_sub *sub = subscribe(&s, 0, 2, AMB_FALLBACK_HOST); /* HOST and PINNED */
    for (unsigned i = 0; i < KINDS; i++) {
        struct amb_msg *msg = take(&s, sub, kinds[i], i + 1);
        assert_lies(msg, kinds[i] == AMB_MEM_PINNED ? &owns[1] : &owns[0]);
        amb_msg_release(msg);
    }
    /* Nothing of it is to lie on a GPU: the broker is told so. */
    assert_int_equal(amb_landing_mem(sub->landing), AMB_MEM_HOST);
    session_close(&s);
}

static void the_broker_may_leave_on_a_gpu_what_may_be_there(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    assert_int_equal(amb_landing_mem(subscribe(&s, 2, 1, AMB_FALLBACK_HOST)->landing),
                     AMB_MEM_AS_SENT);
    assert_int_equal(amb_landing_mem(subscribe(&s, 3, 1, AMB_FALLBACK_HOST)->landing),
                     AMB_MEM_AS_SENT);
    assert_int_equal(amb_landing_mem(subscribe(&s, 0, 1, AMB_FALLBACK_IN_PLACE)->landing),
                     AMB_MEM_AS_SENT);
    assert_false(amb_landing_is_by_link(subscribe(&s, 2, 1, AMB_FALLBACK_HOST)->landing));
    session_close(&s);
}

static void mapped_payloads_go_there_too(void **state)
{
    (void)state;
    struct session s;
    session_open(&s, &mapping, NULL);
    struct amb_sub *sub = subscribe(&s, 0, KINDS, AMB_FALLBACK_IN_PLACE);
    fake_broker_segment(s.fake, 1, true);
    FAKE_WAIT(s.fake, &s.seen, s.seen.segments_ready == 1);
    for (unsigned i = 0; i < KINDS; i++) {
        fake_broker_kind(s.fake, kinds[i]);
        fake_broker_map_leased(s.fake, 0, 1, "m", 1, i + 1, 1);
        struct amb_msg *msg = next(sub);
        fake_broker_scribble(s.fake, 1); /* They have been copied. */
        assert_lies(msg, &owns[i]);
        amb_msg_release(msg);
    }
    session_close(&s);
}

static void one_that_has_nothing_holds_all_back_as_credit_does(void **state)
{
    struct session s;
    struct amb_msg *msg;
    session_open(&s, *state, NULL);
    struct amb_sub *sub = subscribe(&s, 0, KINDS, AMB_FALLBACK_IN_PLACE);
    owns[2].is_empty = true;
    fake_broker_kind(s.fake, AMB_MEM_CUDA);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    fake_broker_kind(s.fake, AMB_MEM_HOST);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 2, 0);
    assert_int_equal(amb_next(sub, 50 * AMB_MS, &msg), AMB_ETIMEDOUT);
    assert_true(owns[2].asked >= 2 && owns[2].asked < 20); /* It is not asked all the time. */
    assert_int_equal(owns[0].gave, 0);                     /* The order holds. */
    struct amb_sub_info info = AMB_INIT(amb_sub_info);
    assert_int_equal(amb_sub_stat(sub, &info), AMB_OK);
    assert_int_equal(info.lost, 0);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.release[0], 0); /* Its credit is not given back. */
    owns[2].is_empty = false;
    msg = next(sub);
    assert_lies(msg, &owns[2]);
    amb_msg_release(msg);
    msg = next(sub);
    assert_lies(msg, &owns[0]);
    amb_msg_release(msg);
    session_close(&s);
}

static void for_ever_is_until_the_close(void **state)
{
    struct session s;
    struct amb_msg *msg;
    session_open(&s, *state, NULL);
    struct amb_sub *sub = subscribe(&s, 0, KINDS, AMB_FALLBACK_IN_PLACE);
    owns[3].is_empty = true;
    fake_broker_kind(s.fake, AMB_MEM_CUDA_MANAGED);
    fake_broker_deliver(s.fake, 0, 1, "m", 2, 1, 0);
    assert_int_equal(amb_next(sub, 20 * AMB_MS, &msg), AMB_ETIMEDOUT);
    assert_int_equal(amb_sub_close(sub, AMB_SEC), AMB_OK);
    assert_int_equal(owns[3].gave, 0);
    session_close(&s);
}

static void memory_of_one_that_cannot_be_filled_goes_back(void **state)
{
    struct session s;
    enum amb_loss why;
    session_open(&s, *state, NULL);
    struct amb_sub *sub = subscribe(&s, 0, KINDS, AMB_FALLBACK_IN_PLACE);
    fake_broker_kind(s.fake, AMB_MEM_CUDA);
    fakecuda_fail("cuMemcpyAsync:1=1");
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 2, 0);
    struct amb_msg *msg = next(sub);
    fakecuda_fail(NULL);
    assert_int_equal(amb_msg_lost(msg, &why), 1);
    assert_int_equal(why, AMB_LOSS_TRANSFER);
    assert_lies(msg, &owns[2]);
    assert_int_equal(owns[2].gave, 2);
    assert_int_equal(owns[2].took, 1);
    amb_msg_release(msg);
    session_close(&s);
}

/* ---- the end comes while memory is being filled ---- */

static void *take_one(void *arg)
{
    struct amb_msg *msg = NULL;
    if (amb_next(arg, 5 * AMB_SEC, &msg) == AMB_OK) {
        amb_msg_release(msg);
    }
    return NULL;
}

/* A thread is inside the copy into that kind of memory when this returns. */
static pthread_t begin_to_fill(struct session *s, struct amb_sub *sub, enum amb_mem mem)
{
    pthread_t thread;
    fake_broker_kind(s->fake, mem);
    fakecuda_slow("cuMemcpyAsync=200");
    assert_int_equal(pthread_create(&thread, NULL, take_one, sub), 0);
    fake_broker_deliver(s->fake, 0, 1, "m", 1, 1, 0);
    while (fakecuda_slowed() == 0) {
        fake_broker_nap();
    }
    return thread;
}

static void a_close_leaves_the_memory_until_it_is_filled(void **state)
{
    for (unsigned i = 2; i < KINDS; i++) {
        struct session s;
        session_open(&s, *state, NULL);
        struct amb_sub *sub = subscribe(&s, 0, KINDS, AMB_FALLBACK_IN_PLACE);
        pthread_t thread = begin_to_fill(&s, sub, kinds[i]);
        assert_int_equal(amb_sub_close(sub, AMB_SEC), AMB_OK);
        (void)amb_close(s.conn, AMB_NOWAIT);
        assert_int_equal(pthread_join(thread, NULL), 0);
        fakecuda_slow(NULL);
        assert_int_equal(owns[i].gave, 1);
        assert_int_equal(owns[i].took, 1);
        fake_broker_stop(s.fake);
    }
}

static void a_session_that_is_lost_meanwhile_does_too(void **state)
{
    for (unsigned i = 2; i < KINDS; i++) {
        struct session s;
        struct amb_msg *msg;
        session_open(&s, *state, NULL);
        struct amb_sub *sub = subscribe(&s, 0, KINDS, AMB_FALLBACK_IN_PLACE);
        pthread_t thread = begin_to_fill(&s, sub, kinds[i]);
        fake_broker_hang_up(s.fake);
        assert_int_equal(pthread_join(thread, NULL), 0);
        fakecuda_slow(NULL);
        assert_int_equal(owns[i].gave, owns[i].took);
        assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_ELOST);
        session_close(&s);
    }
}

/* ---- what is refused ---- */

static void assert_refused(struct session *s, const struct amb_sub_options *options,
                           const char *words)
{
    struct amb_sub *sub;
    assert_int_equal(amb_subscribe(s->conn, "t.>", options, &sub), AMB_EINVAL);
    assert_null(sub);
    assert_non_null(strstr(amb_last_error(s->conn).text, words));
}

static void what_cannot_be_is_told_when_subscribing(void **state)
{
    struct session s;
    struct amb_allocator a[KINDS + 1];
    session_open(&s, *state, NULL);
    allocators_of(a, 0, KINDS);
    a[1].mem = AMB_MEM_HOST;
    assert_refused(&s, AMB_SUB(.mem = AMB_MEM_AS_SENT, .allocators = a, .allocator_count = 2),
                   "allocators[1].mem: another allocator");
    a[1].mem = AMB_MEM_DEFAULT;
    assert_refused(&s, AMB_SUB(.mem = AMB_MEM_AS_SENT, .allocators = a, .allocator_count = 2),
                   "allocators[1].mem: HOST, PINNED");
    a[1].mem = AMB_MEM_PINNED;
    a[1].free = NULL;
    assert_refused(&s, AMB_SUB(.mem = AMB_MEM_AS_SENT, .allocators = a, .allocator_count = 2),
                   "allocators[1]: alloc or free");
    allocators_of(a, 0, KINDS);
    assert_refused(&s, AMB_SUB(.mem = AMB_MEM_CUDA, .allocators = a, .allocator_count = 2),
                   "mem = AS_SENT");
    assert_refused(
        &s, AMB_SUB(.mem = AMB_MEM_AS_SENT, .allocator = a, .allocators = a, .allocator_count = 1),
        "mem = AS_SENT");
    struct amb_sub *sub;
    assert_int_equal(amb_subscribe(s.conn, "t.>",
                                   AMB_SUB(.mem = AMB_MEM_AS_SENT, .device = 7, .allocators = a,
                                           .allocator_count = 3),
                                   &sub),
                     AMB_ENOTFOUND);
    assert_non_null(strstr(amb_last_error(s.conn).text, "no GPU 7"));
    session_close(&s);
}

static void nothing_of_the_driver_is_left_behind(void **state)
{
    (void)state;
    assert_int_equal(fakecuda_left(), 0);
}

static struct fake_options ring = {.link = AMB_LINK_RING};
static struct fake_options stream = {.link = AMB_LINK_STREAM};
#define BOTH(f)                                                                                    \
    {#f " (ring)", f, owns_make, owns_free, &ring},                                                \
    {                                                                                              \
#f " (stream)", f, owns_make, owns_free, &stream                                           \
    }

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 1) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        BOTH(each_kind_goes_to_its_allocator),
        BOTH(a_publisher_that_says_no_kind_has_host_memory),
        BOTH(a_kind_without_one_stays_where_it_came),
        BOTH(or_comes_to_the_host_s_allocator),
        BOTH(the_broker_may_leave_on_a_gpu_what_may_be_there),
        cmocka_unit_test_setup_teardown(mapped_payloads_go_there_too, owns_make, owns_free),
        BOTH(one_that_has_nothing_holds_all_back_as_credit_does),
        BOTH(for_ever_is_until_the_close),
        BOTH(memory_of_one_that_cannot_be_filled_goes_back),
        BOTH(a_close_leaves_the_memory_until_it_is_filled),
        BOTH(a_session_that_is_lost_meanwhile_does_too),
        BOTH(what_cannot_be_is_told_when_subscribing),
        cmocka_unit_test(nothing_of_the_driver_is_left_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
