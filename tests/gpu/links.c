/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two links over UCX of one process ($AMB_URL, a real broker), of which one is closed in the middle
 * of the other's transfer. The other goes on, and so do the process's mappings: every byte is
 * compared. A third connection, on the broker's host ($AMB_LOCAL), reads in the pool.
 *
 *   gpu-links         both are closed in turn, and opened again
 *   gpu-links until   ... until an import is closed under a copy; says "purged"
 */
#include "tests/fakecuda/fakecuda.h"
#include "tests/gpu/program.h"

#include <amb/amb.h>
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define SIZE ((size_t)3 << 20)
#define WAIT (20 * AMB_SEC)
#define TURNS 4

static const char *const topics[] = {"gpu.links.a", "gpu.links.b"};

/* Publishes from GPU 0 and has its own messages brought into GPU 1. */
struct link {
    struct amb_conn *conn;
    struct amb_pub *pub;
    struct amb_sub *sub;
    CUdeviceptr from;
};

static struct link links[2];
static struct amb_conn *local;
static struct amb_sub *in_place; /* of the first link's topic, in the pool */
static uint8_t pattern[SIZE], seen[SIZE];
static unsigned brought; /* messages that UCX has written to GPU 1 */

static struct amb_conn *connect_by(const char *variable)
{
    struct amb_error error;
    struct amb_conn *conn;
    if (amb_connect(getenv(variable), AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        (void)fprintf(stderr, "%s: %s\n", variable, error.text);
        exit(1);
    }
    return conn;
}

static void open_link(int i)
{
    struct link *link = &links[i];
    link->conn = connect_by("AMB_URL");
    CHECK(amb_subscribe(link->conn, topics[i], AMB_SUB(.mem = AMB_MEM_CUDA, .device = 1),
                        &link->sub) == AMB_OK);
    CHECK(amb_pub_open(link->conn, topics[i], NULL, &link->pub) == AMB_OK);
    CHECK(amb_pub_wait_subscribers(link->pub, i == 0 ? 2 : 1, WAIT) == AMB_OK);
}

static void post(struct link *link)
{
    static uint32_t round;
    round++;
    for (size_t i = 0; i < SIZE; i++) {
        pattern[i] = (uint8_t)(round * 31 + i * 7 + (i >> 8) + (i >> 16) * 3);
    }
    CHECK(fakecuda_poke(link->from, pattern, SIZE));
    CHECK(amb_pub_post(link->pub, AMB_OUT(.data = (const void *)(uintptr_t)link->from, .len = SIZE),
                       WAIT, NULL) == AMB_OK);
}

static void compare(struct amb_msg *msg)
{
    CHECK(amb_msg_size(msg) == SIZE && amb_msg_mem(msg) == AMB_MEM_CUDA);
    CHECK(amb_msg_lost(msg, NULL) == 0);
    CHECK(fakecuda_peek((uintptr_t)amb_msg_data_on(msg, NULL), seen, SIZE));
    CHECK(memcmp(seen, pattern, SIZE) == 0);
}

static struct amb_msg *take(struct amb_sub *sub)
{
    struct amb_msg *msg;
    CHECK(amb_next(sub, WAIT, &msg) == AMB_OK);
    compare(msg);
    return msg;
}

static void take_brought(struct link *link)
{
    struct amb_msg *msg = take(link->sub);
    brought += strcmp(amb_msg_path(msg), "ucx") == 0;
    amb_msg_release(msg);
}

static void round_trip(int i)
{
    post(&links[i]);
    take_brought(&links[i]);
    if (i == 0) {
        amb_msg_release(take(in_place));
    }
}

/* ---- a close in the middle ---- */

static atomic_bool is_closed;

static void *close_it(void *conn)
{
    CHECK(amb_close(conn, WAIT) == AMB_OK);
    atomic_store(&is_closed, true);
    return NULL;
}

/* A message is on its way to GPU 1, and cannot be written there. */
static void begin_transfer(struct link *link)
{
    fakecuda_hold_device(1);
    post(link);
    for (int i = 0; fakecuda_pending(1) == 0; i++) {
        CHECK(i < 5000 && usleep(1000) == 0);
    }
}

/* The sender's UCX writes it from GPU 0 to the pool, behind an event that libamb waits for. Streams
 * are late, so that there is time to hold it in between; in vain, the next turn tries again. */
static void begin_ipc_transfer(struct link *link)
{
    unsigned long before = fakecuda_calls_of("cuMemcpyDtoDAsync");
    post(link);
    for (int i = 0; fakecuda_calls_of("cuMemcpyDtoDAsync") == before; i++) {
        CHECK(i < 5000 && usleep(1000) == 0);
    }
    fakecuda_hold_device(0);
}

/* Closed while a stream is held, which goes on a second later where the close waits for it. */
static void close_under_transfer(int closed, int other, bool by_ipc)
{
    pthread_t thread;
    struct amb_msg *held = NULL;
    if (by_ipc) {
        begin_ipc_transfer(&links[other]);
    } else {
        begin_transfer(&links[other]);
        held = other == 0 ? take(in_place) : NULL;
    }
    atomic_store(&is_closed, false);
    CHECK(pthread_create(&thread, NULL, close_it, links[closed].conn) == 0);
    for (int i = 0; i < 1000 && !atomic_load(&is_closed); i++) {
        CHECK(usleep(1000) == 0);
    }
    CHECK(by_ipc || fakecuda_pending(1) != 0);
    fakecuda_hold_device(-1);
    CHECK(pthread_join(thread, NULL) == 0);
    if (by_ipc && fakecuda_faults() != 0) {
        return;
    }
    take_brought(&links[other]);
    if (other == 0) { /* The pool is still mapped. */
        held = held != NULL ? held : take(in_place);
        compare(held);
        amb_msg_release(held);
    }
    round_trip(other);
}

int main(int argc, char **argv)
{
    bool until = argc > 1 && strcmp(argv[1], "until") == 0;
    CUstream stream = start_cuda();
    for (int i = 0; i < 2; i++) {
        CHECK(cuMemAlloc(&links[i].from, SIZE) == CUDA_SUCCESS);
    }
    local = connect_by("AMB_LOCAL");
    CHECK(amb_subscribe(local, topics[0], AMB_SUB(.mem = AMB_MEM_CUDA, .device = 1), &in_place) ==
          AMB_OK);
    open_link(0);
    open_link(1);
    for (int i = 0; i < TURNS; i++) {
        for (int j = 0; j < 6; j++) {
            round_trip(j % 2);
        }
        close_under_transfer(i % 2, 1 - i % 2, until);
        if (until && fakecuda_faults() != 0) {
            (void)puts("purged");
            return 0;
        }
        open_link(i % 2);
    }
    (void)printf("brought %u, imports %lu, faults %lu\n", brought,
                 fakecuda_calls_of("cuIpcOpenMemHandle"), fakecuda_faults());
    CHECK(brought >= (unsigned)TURNS * 4 && fakecuda_faults() == 0 && !until);
    for (int i = 0; i < 2; i++) {
        CHECK(amb_close(links[i].conn, WAIT) == AMB_OK);
        CHECK(cuMemFree(links[i].from) == CUDA_SUCCESS);
    }
    CHECK(amb_close(local, WAIT) == AMB_OK && cuStreamDestroy(stream) == CUDA_SUCCESS);
    CHECK(fakecuda_faults() == 0);
    return 0;
}
