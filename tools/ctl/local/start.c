/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/local/start.h"

#include "tools/common/brokerd.h"
#include "tools/common/exit.h"
#include "tools/ctl/local/cores.h"
#include "tools/ctl/local/ranks.h"
#include "wire/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GPUS_NS (60 * AMB_NS_PER_SEC)  /* for a driver that comes up */
#define START_NS (30 * AMB_NS_PER_SEC) /* ... and for the broker */
#define OPTION_MAX (AMB_LOCAL_GPUS_MAX * (AMB_LOCAL_UUID_MAX + 1) + 64)
#define VISIBLE "CUDA_VISIBLE_DEVICES"
#define OWN_OPTIONS 4u /* that come before the user's */

/* GPUs of one list are added; false: it was told to end. */
static bool ask_gpus(struct amb_loop *loop, const char *visible)
{
    static struct amb_local_gpus some;
    int fd = -1;
    pid_t pid = amb_local_gpus_ask(visible, &fd);
    loop->asker = pid > 0 ? pid : 0;
    ssize_t n = pid > 0 ? amb_loop_await(loop, fd, &some, sizeof(some), false, GPUS_NS) : 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    if (n != (ssize_t)sizeof(some)) {
        if (loop->asker > 0) { /* Else it has ended, and its number may be another's. */
            (void)kill(loop->asker, SIGKILL);
        }
        (void)snprintf(loop->gpus.why_not, sizeof(loop->gpus.why_not), "%s",
                       pid < 0 ? strerror(errno)
                       : n < 0 ? "the CUDA driver does not answer"
                               : "the CUDA driver has ended the process that asked it");
        return !loop->is_ending;
    }
    (void)snprintf(loop->gpus.why_not, sizeof(loop->gpus.why_not), "%.319s", some.why_not);
    for (uint32_t i = 0; i < some.count && loop->gpus.count < AMB_LOCAL_GPUS_MAX; i++) {
        loop->gpus.items[loop->gpus.count++] = some.items[i];
    }
    return true;
}

static bool make_room(struct amb_loop *loop)
{
    loop->line_count = 1 + 2 * loop->count;
    loop->ranks = calloc(loop->count, sizeof(*loop->ranks));
    loop->lines = calloc(loop->line_count, sizeof(*loop->lines));
    struct pollfd *fds = calloc(AMB_LOOP_LINES + loop->line_count, sizeof(*fds));
    if (loop->ranks == NULL || loop->lines == NULL || fds == NULL) {
        loop->count = loop->line_count = 0;
        amb_loop_say(loop, "no memory");
        amb_loop_set_code(loop, AMB_EXIT_SOFTWARE);
        return false;
    }
    free(loop->fds);
    loop->fds = fds;
    loop->lines[0].fd = -1;
    for (unsigned i = 1; i < loop->line_count; i++) {
        loop->lines[i].fd = -1;
        (void)snprintf(loop->lines[i].prefix, sizeof(loop->lines[i].prefix), "[%u] ", (i - 1) / 2);
    }
    (void)snprintf(loop->lines[0].prefix, sizeof(loop->lines[0].prefix), "[broker] ");
    return true;
}

bool amb_start_gpus(struct amb_loop *loop)
{
    const char *visible = getenv(VISIBLE);
    char part[AMB_LOCAL_UUID_MAX];
    bool has_parts = false;
    for (unsigned i = 0; amb_local_gpus_part(visible, i, part); i++) {
        has_parts = true;
        if (!ask_gpus(loop, part)) {
            return false;
        }
    }
    if (!has_parts && !ask_gpus(loop, NULL)) {
        return false;
    }
    if (loop->gpus.count == 0 && (loop->local->needs_gpu || loop->local->pool != NULL)) {
        amb_loop_say(loop, "no GPU: %s",
                     loop->gpus.why_not[0] != '\0' ? loop->gpus.why_not : "there is none");
        amb_loop_set_code(loop, AMB_EXIT_UNAVAILABLE);
        return false;
    }
    loop->count = loop->local->count != 0 ? loop->local->count
                  : loop->gpus.count > 0  ? loop->gpus.count
                                          : 1;
    return make_room(loop);
}

/* The pools of the GPUs in use. They are named, so the broker is shown all GPUs: then it has those
 * of its clients, in whatever order these see them. Of parts of GPUs it is shown the first. */
static void pool_options(const struct amb_loop *loop, char *size, char *devices)
{
    unsigned used = loop->count < loop->gpus.count ? loop->count : loop->gpus.count;
    (void)snprintf(size, OPTION_MAX, "memory.cuda.size=%s", loop->local->pool);
    int len = snprintf(devices, OPTION_MAX, "memory.cuda.devices=");
    if (strncmp(loop->gpus.items[0].uuid, "MIG-", 4) == 0) {
        (void)snprintf(devices + len, OPTION_MAX - (size_t)len, "auto");
    } else {
        (void)unsetenv(VISIBLE); /* Each rank has one of its own. */
        amb_local_gpus_ring(&loop->gpus, 0, used, devices + len, OPTION_MAX - (size_t)len);
    }
}

/* Until its ready line. */
static bool await_broker(struct amb_loop *loop)
{
    char line[1024];
    ssize_t n = amb_loop_await(loop, loop->ready_fd, line, sizeof(line), true, START_NS);
    if (n > 6 && strncmp(line, "ready ", 6) == 0 && loop->broker > 0) {
        loop->is_broker_wanted = true; /* From here on its end is a failure of its own. */
        return true;
    }
    if (!loop->is_ending) {
        amb_loop_say(loop, "brokerd did not start");
    }
    amb_loop_set_code(loop, AMB_EXIT_UNAVAILABLE);
    return false;
}

bool amb_start_broker(struct amb_loop *loop)
{
    static char pool_size[OPTION_MAX], pool_devices[OPTION_MAX];
    const char *options[AMB_LOCAL_OPTIONS_MAX + OWN_OPTIONS];
    char url[AMB_FOLDER_MAX + 32];
    const char *const listen[] = {url};
    unsigned count = 0;
    int log_fds[2];
    if (loop->is_ending) {
        return false;
    }
    options[count++] = "log.level=warn";
    options[count++] = "transports.trusted="; /* UCX opens no port. */
    if (loop->local->pool != NULL) {
        pool_options(loop, pool_size, pool_devices);
        options[count++] = pool_size;
        options[count++] = pool_devices;
    }
    for (unsigned i = 0; i < loop->local->option_count; i++) {
        options[count++] = loop->local->options[i];
    }
    amb_rank_url(loop->local, url, sizeof(url));
    if (pipe2(log_fds, O_CLOEXEC) != 0) {
        amb_loop_say(loop, "brokerd: %s", strerror(errno));
        amb_loop_set_code(loop, AMB_EXIT_SOFTWARE);
        return false;
    }
    const struct amb_brokerd_start how = {
        .path = loop->local->brokerd,
        .listen = listen,
        .listen_count = 1,
        .options = options,
        .option_count = count,
        .log_fd = log_fds[1],
        .death_signal = SIGKILL,
    };
    pid_t pid = amb_brokerd_start(&how, &loop->ready_fd);
    int error = errno;
    (void)close(log_fds[1]);
    loop->lines[0].fd = log_fds[0];
    if (pid < 0) {
        amb_loop_say(loop, "brokerd: %s", strerror(error));
        amb_loop_set_code(loop, AMB_EXIT_SOFTWARE);
        return false;
    }
    loop->broker = pid;
    return await_broker(loop);
}

/* The cores near the GPU of that rank. False: any will do, and where that is a pity it is said. */
static bool find_cores(struct amb_loop *loop, unsigned rank, struct amb_local_cores *out)
{
    char list[200];
    if (loop->gpus.count == 0) {
        return false;
    }
    const char *pci = loop->gpus.items[rank % loop->gpus.count].pci;
    if (!amb_local_cores_near(loop->local->sysfs, pci, out)) {
        return false;
    }
    if (!amb_local_cores_keep_allowed(out)) {
        amb_loop_say(
            loop,
            "rank %u runs on any core: those near its GPU (%s, node %d: %s) are not for this "
            "process",
            rank, pci, out->node, amb_cpus_format(&out->cpus, list, sizeof(list)));
        return false;
    }
    return true;
}

bool amb_start_ranks(struct amb_loop *loop)
{
    struct amb_local_cores cores;
    for (unsigned i = 0; i < loop->count && !loop->is_ending; i++) {
        struct amb_rank_start start = {
            .local = loop->local, .gpus = &loop->gpus, .rank = i, .count = loop->count};
        start.cores = find_cores(loop, i, &cores) ? &cores : NULL;
        pid_t pid = amb_rank_start(&start, &loop->lines[1 + 2 * i].fd, &loop->lines[2 + 2 * i].fd);
        if (pid < 0) {
            amb_loop_say(loop, "rank %u: %s", i, strerror(errno));
            amb_loop_set_code(loop, AMB_EXIT_SOFTWARE);
            return false;
        }
        loop->ranks[i] = pid;
        loop->left++;
    }
    return true;
}
