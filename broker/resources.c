/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/resources.h"

#include "wire/base/text.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Beside messages: code, heap, UCX; stacks and buffers of each worker. */
#define BASE_BYTES (UINT64_C(256) << 20)
#define WORKER_BYTES (UINT64_C(64) << 20)
#define MEMLOCK_LEAST (UINT64_C(64) << 20)

void amb_resources_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static uint64_t address_space_needed(const struct amb_config *config)
{
    const struct amb_config_host_memory *host = &config->memory.host;
    uint64_t messages = host->grow_on_demand ? host->segment * (1 + host->spare) : host->size;
    return BASE_BYTES + WORKER_BYTES * config->server.workers + messages;
}

enum amb_status amb_resources_check(const struct amb_config *config, char *error, size_t error_size)
{
    struct rlimit limit;
    uint64_t needed = address_space_needed(config);
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= needed) {
        return AMB_OK;
    }
    char size[AMB_TEXT_MAX];
    amb_text_format_size(config->memory.host.size, size, sizeof(size));
    (void)snprintf(error, error_size,
                   "the limit of address space is too small for memory.host.size = %s and %u "
                   "workers (got ulimit -v %llu, allowed at least %llu)",
                   size, (unsigned)config->server.workers,
                   (unsigned long long)limit.rlim_cur / 1024, (unsigned long long)needed / 1024);
    return AMB_ELIMIT;
}

bool amb_resources_memlock_warning(char *text, size_t size)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= MEMLOCK_LEAST) {
        return false;
    }
    (void)snprintf(text, size,
                   "RDMA registers message memory, but lockable memory is limited (ulimit -l is "
                   "%llu, unlimited is needed)",
                   (unsigned long long)limit.rlim_cur / 1024);
    return true;
}

/* The folder of a path if it is called ambroker-UID; false: not ours to make. */
static bool private_folder(const char *path, char *out, size_t size)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "/ambroker-%u", (unsigned)geteuid());
    const char *slash = strrchr(path, '/');
    size_t len = (size_t)(slash - path), name_len = strlen(name);
    if (len < name_len || len >= size || strncmp(slash - name_len, name, name_len) != 0) {
        return false;
    }
    memcpy(out, path, len);
    out[len] = '\0';
    return true;
}

static enum amb_status make_folder(const char *path, char *error, size_t error_size)
{
    struct stat st;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        (void)snprintf(error, error_size, "folder %s cannot be made: %s", path, strerror(errno));
        return AMB_EFORBIDDEN;
    }
    /* In /tmp anybody may have made it first: lstat, so that no link leads elsewhere. */
    if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
        (st.st_mode & 0077) != 0) {
        (void)snprintf(error, error_size,
                       "%s must be a folder of this user that is closed to others (mode 0700)",
                       path);
        return AMB_EFORBIDDEN;
    }
    return AMB_OK;
}

enum amb_status amb_resources_make_folders(const struct amb_config *config, char *error,
                                           size_t error_size)
{
    enum amb_status status = AMB_OK;
    for (size_t i = 0; status == AMB_OK && i < config->listen.count; i++) {
        const struct amb_url *url = &config->listen.items[i];
        char folder[sizeof(url->path)];
        if (url->scheme == AMB_URL_UNIX && private_folder(url->path, folder, sizeof(folder))) {
            status = make_folder(folder, error, error_size);
        }
    }
    return status;
}
