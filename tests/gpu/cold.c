/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cold machine, on the fake driver. $FAKECUDA_SLOW has some calls take longer than the broker's
 * peer_timeout: cuInit, primary contexts, the opening of a pool, the pinning of memory. Sessions
 * live on, and host messages come and go on the same connections.
 *
 *   gpu-cold publisher    host messages without an end; leases in GPU and in pinned memory
 *   gpu-cold subscriber   both; says the longest pause of the host messages, in milliseconds
 */
#include "tests/fakecuda/fakecuda.h"
#include "tests/gpu/program.h"

#include <amb/amb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HOST "cold.host"
#define GPU "cold.gpu"
#define PINNED "cold.pinned"
#define BYTES 100000u
#define COUNT 20u
#define LONG (20 * AMB_SEC)

static struct amb_conn *conn;
static _Atomic bool is_over;

static int64_t now_ms(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

static void *send_host(void *arg)
{
    struct amb_pub *pub = arg;
    for (uint32_t i = 0; !atomic_load(&is_over); i++) {
        CHECK(amb_pub_post(pub, AMB_OUT(.data = &i, .len = sizeof(i), .mem = AMB_MEM_HOST), LONG,
                           NULL) == AMB_OK);
        (void)usleep(5000);
    }
    return NULL;
}

/* Nobody waits inside of the library meanwhile: all is left to its own threads. */
static struct amb_lease *lease(struct amb_pub *pub)
{
    struct amb_lease *got;
    enum amb_status status;
    while ((status = amb_lease(pub, BYTES, AMB_NOWAIT, &got)) == AMB_EAGAIN) {
        (void)usleep(10000);
    }
    CHECK(status == AMB_OK);
    return got;
}

static void publish(struct amb_pub *pub, uint32_t i, bool is_on_gpu)
{
    struct amb_lease *own = lease(pub);
    if (is_on_gpu) {
        CHECK(fakecuda_poke((uintptr_t)amb_lease_data_on(own, NULL), &i, sizeof(i)));
    } else {
        memcpy(amb_lease_data(own), &i, sizeof(i));
    }
    CHECK(amb_lease_commit(own, AMB_OUT(.len = BYTES), NULL) == AMB_OK);
}

static void publisher(void)
{
    struct amb_pub *host, *gpu, *pinned;
    pthread_t thread;
    CHECK(amb_pub_open(conn, HOST, NULL, &host) == AMB_OK);
    CHECK(pthread_create(&thread, NULL, send_host, host) == 0);
    CHECK(amb_pub_open(conn, GPU, AMB_PUB(.lease_mem = AMB_MEM_CUDA), &gpu) == AMB_OK);
    CHECK(amb_pub_open(conn, PINNED, AMB_PUB(.lease_mem = AMB_MEM_PINNED), &pinned) == AMB_OK);
    (void)fprintf(stderr, "open\n");
    CHECK(getchar() == '\n'); /* The subscriber is there, too. */
    for (uint32_t i = 0; i < COUNT; i++) {
        publish(gpu, i, true);
        publish(pinned, i, false);
    }
    CHECK(amb_flush(conn, LONG) == AMB_OK);
    CHECK(getchar() == EOF); /* Until the subscriber has all of it. */
    atomic_store(&is_over, true);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void *take_host(void *arg)
{
    struct amb_sub *sub = arg;
    struct amb_msg *msg;
    int64_t before = 0, longest = 0;
    while (!atomic_load(&is_over)) {
        CHECK(amb_next(sub, LONG, &msg) == AMB_OK);
        amb_msg_release(msg);
        int64_t now = now_ms();
        longest = before != 0 && now - before > longest ? now - before : longest;
        before = now;
    }
    (void)printf("%d\n", (int)longest);
    return NULL;
}

static void take(struct amb_sub *sub, uint32_t i, bool is_on_gpu)
{
    struct amb_msg *msg;
    uint32_t got = UINT32_MAX;
    CHECK(amb_next(sub, LONG, &msg) == AMB_OK && amb_msg_size(msg) == BYTES);
    if (is_on_gpu) {
        CHECK(amb_msg_device(msg) == 0);
        CHECK(fakecuda_peek((uintptr_t)amb_msg_data_on(msg, NULL), &got, sizeof(got)));
    } else {
        memcpy(&got, amb_msg_data(msg), sizeof(got));
    }
    CHECK(got == i && amb_msg_lost(msg, NULL) == 0);
    amb_msg_release(msg);
}

static void subscriber(void)
{
    struct amb_sub *host, *gpu, *pinned;
    pthread_t thread;
    CHECK(amb_subscribe(conn, HOST, NULL, &host) == AMB_OK);
    CHECK(pthread_create(&thread, NULL, take_host, host) == 0);
    CHECK(amb_subscribe(conn, PINNED, NULL, &pinned) == AMB_OK);
    CHECK(amb_subscribe(conn, GPU, AMB_SUB(.mem = AMB_MEM_CUDA), &gpu) == AMB_OK);
    (void)fprintf(stderr, "open\n");
    for (uint32_t i = 0; i < COUNT; i++) {
        take(gpu, i, true);
        take(pinned, i, false);
    }
    atomic_store(&is_over, true);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    conn = connect_with_attempts(AMB_NONE); /* Nobody overlooks a loss. */
    if (strcmp(argv[1], "publisher") == 0) {
        publisher();
    } else {
        subscriber();
    }
    CHECK(amb_close(conn, 5 * AMB_SEC) == AMB_OK);
    CHECK(fakecuda_left() == 0);
    return 0;
}
