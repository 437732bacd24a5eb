/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A broker's GPU memory in a process of its own, on the fake driver (exporter.h). Memory of
 * $EXPORTER_POOL bytes on GPU 1, its range on stdout, and then nothing. SIGUSR1 has the memory
 * freed, and a byte says so.
 */
#include "client/conn/gpu_range.h"
#include "tests/fakecuda/fakecuda.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t must_free;

static void free_soon(int number)
{
    must_free = number;
}

int main(void)
{
    struct amb_cuda *cuda;
    struct amb_cuda_scope scope;
    const char *pool = getenv("EXPORTER_POOL");
    struct amb_gpu_range told = {.pool = pool != NULL ? strtoull(pool, NULL, 10) : 0};
    uint64_t base;
    if (amb_cuda_at(1, &cuda) != AMB_OK || amb_cuda_enter(cuda, &scope) != AMB_OK ||
        amb_cuda_alloc(cuda, told.pool, &base) != AMB_OK ||
        amb_cuda_export(cuda, base, told.handle) != AMB_OK ||
        !fakecuda_poke(base + 4096, "from the broker", 16)) {
        return 1;
    }
    (void)snprintf(told.device, sizeof(told.device), "%s", amb_cuda_info(cuda)->uuid);
    (void)signal(SIGUSR1, free_soon);
    (void)!write(STDOUT_FILENO, &told, sizeof(told));
    for (;;) {
        (void)usleep(1000);
        if (must_free != 0) {
            must_free = 0;
            amb_cuda_free(cuda, base);
            (void)!write(STDOUT_FILENO, "", 1);
        }
    }
}
