/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocators of a process without a CUDA driver ($AMB_CUDA_LIBRARY names none). Those of a driver's
 * memory are refused with a sentence, and host memory is served. The broker is $AMB_URL.
 */
#include "tests/gpu/program.h"

#include <amb/amb.h>
#include <string.h>

static char memory[64];

static void *give(void *ctx, size_t len, size_t align, int device)
{
    (void)ctx, (void)align;
    return len <= sizeof(memory) && device == -1 ? memory : NULL;
}

static void take_back(void *ctx, void *ptr, size_t len, int device)
{
    (void)ctx, (void)len, (void)device;
    CHECK(ptr == memory);
}

int main(void)
{
    struct amb_conn *conn = connect_to();
    struct amb_allocator own = AMB_INIT(amb_allocator);
    struct amb_sub *sub;
    struct amb_msg *msg;
    own.alloc = give;
    own.free = take_back;
    static const enum amb_mem refused[] = {AMB_MEM_PINNED, AMB_MEM_CUDA, AMB_MEM_CUDA_MANAGED};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        own.mem = refused[i];
        CHECK(
            amb_subscribe(conn, "gpu.none",
                          AMB_SUB(.mem = AMB_MEM_AS_SENT, .allocators = &own, .allocator_count = 1),
                          &sub) == AMB_EINVAL);
        CHECK(sub == NULL && strstr(amb_last_error(conn).text, "never comes here") != NULL);
        CHECK(strstr(amb_last_error(conn).text, "libcuda") != NULL ||
              strstr(amb_last_error(conn).text, "/nowhere") != NULL);
    }
    own.mem = AMB_MEM_HOST;
    CHECK(amb_subscribe(conn, "gpu.none",
                        AMB_SUB(.mem = AMB_MEM_AS_SENT, .allocators = &own, .allocator_count = 1),
                        &sub) == AMB_OK);
    CHECK(amb_publish(conn, "gpu.none", "text", 4, 5 * AMB_SEC) == AMB_OK);
    CHECK(amb_next(sub, 5 * AMB_SEC, &msg) == AMB_OK);
    CHECK(amb_msg_data(msg) == memory && memcmp(memory, "text", 4) == 0);
    amb_msg_release(msg);
    CHECK(amb_close(conn, 5 * AMB_SEC) == AMB_OK);
    return 0;
}
