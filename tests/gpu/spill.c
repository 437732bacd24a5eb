/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU subscriber that does not keep up and spills, beside one that does, with a real broker
 * ($AMB_URL), one role a process:
 *
 *   gpu-spill publish COUNT SUBSCRIBERS   leases on the GPU, written by the stream
 *   gpu-spill fast COUNT                  reads in place
 *   gpu-spill slow COUNT                  takes two, says "held" and waits for the end of standard
 *                                         input; then reads all, says "got N lost M"
 *   gpu-spill host COUNT                  the same into host memory
 *
 * Each message is a word, over and over, which is its number. Every byte is looked at.
 */
#include "tests/fakecuda/fakecuda.h"
#include "tests/gpu/program.h"
#include "wire/base/clock.h"

#include <amb/amb.h>
#include <cuda.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOPIC "gpu.spill"
#define BYTES ((size_t)200000)
#define HELD 2u

static CUstream stream;

static void say(const char *text)
{
    (void)puts(text);
    (void)fflush(stdout);
}

static void publish(uint32_t count, uint32_t subscribers)
{
    struct amb_pub *pub;
    struct amb_conn *conn = connect_to();
    CHECK(amb_pub_open(conn, TOPIC, AMB_PUB(.lease_mem = AMB_MEM_CUDA), &pub) == AMB_OK);
    CHECK(amb_pub_wait_subscribers(pub, subscribers, 20 * AMB_SEC) == AMB_OK);
    for (uint32_t i = 1; i <= count; i++) {
        struct amb_lease *lease;
        CHECK(amb_lease(pub, BYTES, 20 * AMB_SEC, &lease) == AMB_OK);
        CUdeviceptr at = (uintptr_t)amb_lease_data_on(lease, stream);
        CHECK(cuMemsetD32Async(at, i, BYTES / 4, stream) == CUDA_SUCCESS);
        CHECK(amb_lease_commit(lease, AMB_OUT(.stream = stream), NULL) == AMB_OK);
        if (i <= HELD) { /* Batches of their own: credit for one message does not cut a batch. */
            CHECK(amb_pub_flush(pub, 0, 20 * AMB_SEC) == AMB_OK);
        }
    }
    CHECK(amb_pub_flush(pub, 0, 20 * AMB_SEC) == AMB_OK);
    CHECK(amb_close(conn, 20 * AMB_SEC) == AMB_OK);
}

/* Its bytes, wherever they are. */
static bool is_number(struct amb_msg *msg, bool is_host, uint32_t number)
{
    static uint32_t words[BYTES / 4];
    if (amb_msg_size(msg) != BYTES) {
        return false;
    }
    if (is_host) {
        memcpy(words, amb_msg_data(msg), BYTES);
    } else if (!fakecuda_peek((uintptr_t)amb_msg_data_on(msg, stream), words, BYTES)) {
        return false;
    }
    for (size_t i = 0; i < BYTES / 4; i++) {
        if (words[i] != number) {
            return false;
        }
    }
    return true;
}

struct tally {
    uint32_t next, got, lost, in_place;
    uint64_t base; /* the message that was published there before */
};

static void look_at(struct tally *tally, struct amb_msg *msg, bool is_host)
{
    uint64_t lost = amb_msg_lost(msg, NULL);
    CHECK(lost < UINT32_MAX);
    if (tally->got == 0) {
        tally->base = amb_msg_seq(msg) - 1 - lost;
    }
    tally->next += (uint32_t)lost;
    tally->lost += (uint32_t)lost;
    CHECK(amb_msg_seq(msg) == tally->base + tally->next);
    CHECK(is_number(msg, is_host, tally->next));
    tally->in_place += strcmp(amb_msg_path(msg), "cuda_ipc") == 0;
    tally->next++;
    tally->got++;
}

static void give_back(struct amb_msg *msg, bool is_host)
{
    if (is_host) {
        amb_msg_release(msg);
    } else {
        amb_msg_release_on(msg, stream);
    }
}

static void fast(uint32_t count)
{
    struct amb_sub *sub;
    struct amb_msg *msg;
    struct tally tally = {.next = 1};
    struct amb_conn *conn = connect_to();
    CHECK(amb_subscribe(
              conn, TOPIC,
              AMB_SUB(.mem = AMB_MEM_CUDA, .slow = AMB_SLOW_BLOCK, .slow_block_ns = AMB_FOREVER),
              &sub) == AMB_OK);
    while (tally.got < count) {
        CHECK(amb_next(sub, 60 * AMB_SEC, &msg) == AMB_OK);
        look_at(&tally, msg, false);
        give_back(msg, false);
    }
    CHECK(tally.lost == 0 && tally.in_place == count);
    CHECK(amb_close(conn, 20 * AMB_SEC) == AMB_OK);
}

static void slow(uint32_t count, bool is_host)
{
    struct amb_sub *sub;
    struct amb_msg *msg, *held[HELD];
    struct tally tally = {.next = 1};
    char byte, text[96];
    struct amb_conn *conn = connect_to();
    CHECK(amb_subscribe(conn, TOPIC,
                        AMB_SUB(.mem = is_host ? AMB_MEM_HOST : AMB_MEM_CUDA,
                                .slow = AMB_SLOW_SPILL, .credit_msgs = HELD),
                        &sub) == AMB_OK);
    for (uint32_t i = 0; i < HELD; i++) {
        CHECK(amb_next(sub, 60 * AMB_SEC, &held[i]) == AMB_OK);
        look_at(&tally, held[i], is_host);
    }
    say("held");
    while (read(0, &byte, 1) > 0) {
    }
    for (uint32_t i = 0; i < HELD; i++) {
        CHECK(is_number(held[i], is_host, i + 1));
        give_back(held[i], is_host);
    }
    while (tally.next <= count && amb_next(sub, 5 * AMB_SEC, &msg) == AMB_OK) {
        look_at(&tally, msg, is_host);
        give_back(msg, is_host);
    }
    (void)snprintf(text, sizeof(text), "got %" PRIu32 " lost %" PRIu32 " in place %" PRIu32,
                   tally.got, tally.lost, tally.in_place);
    say(text);
    CHECK(amb_close(conn, 20 * AMB_SEC) == AMB_OK);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    uint32_t count = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    if (count == 0) {
        (void)fprintf(stderr, "usage: gpu-spill publish COUNT SUBSCRIBERS|fast|slow|host COUNT\n");
        return 64;
    }
    if (strcmp(mode, "host") != 0) {
        stream = start_cuda();
    }
    if (strcmp(mode, "publish") == 0 && argc > 3) {
        publish(count, (uint32_t)strtoul(argv[3], NULL, 10));
    } else if (strcmp(mode, "fast") == 0) {
        fast(count);
    } else {
        slow(count, strcmp(mode, "host") == 0);
    }
    return 0;
}
