/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/config_check.h"

#include "broker/config/config_auth.h"
#include "broker/config/config_http.h"
#include "broker/config/config_listen.h"
#include "broker/config/config_quotas.h"
#include "broker/config/config_roles.h"
#include "broker/config/config_tenants.h"
#include "broker/config/config_tls.h"
#include "broker/config/config_trust.h"
#include "wire/base/cpus.h"
#include "wire/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN_MAX 255u
#define AUTO_MESSAGE_MAX (UINT64_C(1) << 30)
#define AUTO_LEASED_MAX (UINT64_C(1) << 30)
#define AUTO_CONNECTIONS_MIN 8u
#define CONNECTIONS_MAX 100000u
#define AUTO_WORKERS_MAX 16u

/* Descriptors: a fixed part, each worker, each segment, each connection: one for control, one for
 * the bell of its ring or its stream. Leases take one each, and there is one for some connections.
 * A connection that has not said who it is has one, and so has one that the porter is to close. A
 * ring that is being made has two more, for its client: its memory and the bell. They are sent and
 * closed at once, so a few are counted. */
#define FDS_FIXED 64u
#define FDS_PER_WORKER 24u
#define FDS_PER_SEGMENT 2u
#define FDS_PER_CONNECTION 2u
#define FDS_PER_OPENING 2u
#define CONNECTIONS_PER_LEASE 8u
#define OPENINGS 8u
/* Of those that workers and segments leave, connections that nobody knows yet get a part, and those
 * that are over another one. */
#define HALF_OPEN_MIN 8u
#define HALF_OPEN_PART 8u
#define CLOSING_MIN 4u
#define CLOSING_PART 16u
#define HTTP_AUTO_LEAST 1024u

static enum amb_status check_leased(const struct amb_config_build *build)
{
    struct amb_config *config = build->config;
    uint64_t most = config->memory.host.size / 4;
    if (config->limits.max_leased_per_session == AMB_CONFIG_LEASED_AUTO) {
        config->limits.max_leased_per_session = most < AUTO_LEASED_MAX ? most : AUTO_LEASED_MAX;
    }
    if (config->limits.max_leased_per_session > most) {
        char size[AMB_TEXT_MAX], other[AMB_TEXT_MAX];
        amb_text_format_size(config->limits.max_leased_per_session, other, sizeof(other));
        amb_text_format_size(most, size, sizeof(size));
        return amb_config_fail(build,
                               amb_config_place_of(build->store, "limits.max_leased_per_session"),
                               "limits.max_leased_per_session",
                               "more than a quarter of memory.host.size (got %s, allowed at most "
                               "%s)",
                               other, size);
    }
    return AMB_OK;
}

/* Ranges of a pool are multiples of that: gpupool.h. */
#define CUDA_LEAST (UINT64_C(2) << 20)

static enum amb_status check_cuda(const struct amb_config_build *build)
{
    const struct amb_config *config = build->config;
    char size[AMB_TEXT_MAX];
    if (config->memory.cuda.size == 0 || config->memory.cuda.size >= CUDA_LEAST) {
        return AMB_OK;
    }
    amb_text_format_size(config->memory.cuda.size, size, sizeof(size));
    return amb_config_fail(build, amb_config_place_of(build->store, "memory.cuda.size"),
                           "memory.cuda.size", "too small (got %s, allowed 0 or at least 2M)",
                           size);
}

static enum amb_status check_memory(const struct amb_config_build *build)
{
    struct amb_config *config = build->config;
    const struct amb_config_host_memory *host = &config->memory.host;
    char size[AMB_TEXT_MAX], other[AMB_TEXT_MAX];
    if (host->segment > host->size) {
        amb_text_format_size(host->segment, other, sizeof(other));
        amb_text_format_size(host->size, size, sizeof(size));
        return amb_config_fail(
            build, amb_config_place_of(build->store, "memory.host.segment"), "memory.host.segment",
            "larger than memory.host.size (got %s, allowed at most %s)", other, size);
    }
    uint64_t most = host->size / 4;
    if (config->server.max_message == 0) {
        config->server.max_message = most < AUTO_MESSAGE_MAX ? most : AUTO_MESSAGE_MAX;
    }
    if (config->server.max_message > most) {
        amb_text_format_size(config->server.max_message, other, sizeof(other));
        amb_text_format_size(most, size, sizeof(size));
        return amb_config_fail(
            build, amb_config_place_of(build->store, "server.max_message"), "server.max_message",
            "more than a quarter of memory.host.size (got %s, allowed at most %s)", other, size);
    }
    enum amb_status status = check_cuda(build);
    return status == AMB_OK ? check_leased(build) : status;
}

static uint64_t descriptors_of(uint64_t connections)
{
    return FDS_PER_CONNECTION * connections +
           (connections + CONNECTIONS_PER_LEASE - 1) / CONNECTIONS_PER_LEASE;
}

/* A part of what is there, at least `least` and at most `most`. left: by the connections that there
 * must be, at least `least`. */
static uint32_t part_of(uint64_t part, uint64_t least, uint64_t most, uint64_t left)
{
    part = part < least ? least : part;
    part = part > left ? left : part;
    return (uint32_t)(part > most ? most : part);
}

/* Connections that come and that go. spare: by the connections that there must be. */
static void share_passing(struct amb_config_server *server, uint64_t there, uint64_t spare)
{
    server->max_half_open =
        part_of(there / HALF_OPEN_PART, HALF_OPEN_MIN, AMB_HALF_OPEN_MAX, spare - CLOSING_MIN);
    server->max_closing =
        part_of(there / CLOSING_PART, CLOSING_MIN, AMB_CLOSING_MAX, spare - server->max_half_open);
}

/* HTTP that nobody asked for takes nothing from clients where there is little. Where there is much,
 * its part is left for a reload that brings it. needed: by clients. */
static uint64_t descriptors_of_http(struct amb_config *config,
                                    const struct amb_config_machine *machine, uint64_t needed)
{
    struct amb_config_http *http = &config->http;
    uint64_t own = AMB_HTTP_CONNECTIONS + AMB_HTTP_DESCRIPTORS;
    bool is_rich = machine->descriptors >= HTTP_AUTO_LEAST && machine->descriptors >= needed + own;
    if (http->is_auto && !is_rich) {
        http->doors.count = 0;
    }
    return http->doors.count > 0 || is_rich ? own : 0;
}

/* The descriptor formula; an explicit number must fit, "auto" takes what there is. Leases get what
 * connections leave. */
static enum amb_status check_descriptors(const struct amb_config_build *build,
                                         const struct amb_config_machine *machine)
{
    struct amb_config *config = build->config;
    uint64_t segments = config->memory.host.size / config->memory.host.segment;
    uint64_t base = FDS_FIXED + AMB_CONFIG_LEASES_LEAST + FDS_PER_OPENING * OPENINGS +
                    FDS_PER_WORKER * config->server.workers + FDS_PER_SEGMENT * segments;
    uint64_t wanted = config->server.max_connections;
    uint64_t least = wanted == 0 ? AUTO_CONNECTIONS_MIN : wanted;
    uint64_t passing = HALF_OPEN_MIN + CLOSING_MIN;
    base += descriptors_of_http(config, machine, base + passing + descriptors_of(least));
    uint64_t needed = base + passing + descriptors_of(least);
    if (machine->descriptors < needed) {
        return amb_config_fail(build, amb_config_place_of(build->store, "server.max_connections"),
                               "server.max_connections",
                               "the descriptor limit is too small for %" PRIu32 " workers, %" PRIu64
                               " segments and %" PRIu64 " connections (got ulimit -n %" PRIu64
                               ", allowed at least %" PRIu64 ")",
                               config->server.workers, segments, least, machine->descriptors,
                               needed);
    }
    uint64_t there = machine->descriptors - base;
    share_passing(&config->server, there, there - descriptors_of(least));
    there -= config->server.max_half_open + config->server.max_closing;
    if (wanted == 0) {
        uint64_t fit =
            there / (FDS_PER_CONNECTION * CONNECTIONS_PER_LEASE + 1) * CONNECTIONS_PER_LEASE;
        wanted = fit > CONNECTIONS_MAX ? CONNECTIONS_MAX : fit;
        config->server.max_connections = (uint32_t)wanted;
    }
    uint64_t left = there - FDS_PER_CONNECTION * wanted;
    config->server.max_leases = (uint32_t)(left > wanted ? wanted : left);
    return AMB_OK;
}

static enum amb_status check_times(const struct amb_config_build *build)
{
    const struct amb_config *config = build->config;
    if (config->limits.heartbeat_ns <= config->limits.peer_timeout_ns / 2) {
        return AMB_OK;
    }
    char got[AMB_TEXT_MAX], most[AMB_TEXT_MAX];
    amb_text_format_time(config->limits.heartbeat_ns, got, sizeof(got));
    amb_text_format_time(config->limits.peer_timeout_ns / 2, most, sizeof(most));
    return amb_config_fail(
        build, amb_config_place_of(build->store, "limits.heartbeat"), "limits.heartbeat",
        "more than half of limits.peer_timeout (got %s, allowed at most %s)", got, most);
}

/* At most `size` - 1 bytes of the file; -1 and a reason. */
static ssize_t read_secret(const char *path, char *out, size_t size, char *reason,
                           size_t reason_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    ssize_t len = -1;
    if (fd < 0 || fstat(fd, &st) != 0) {
        (void)snprintf(reason, reason_size, "cannot be read: %s", strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        (void)snprintf(reason, reason_size, "is not a regular file");
    } else if ((st.st_mode & 0077) != 0) {
        (void)snprintf(reason, reason_size,
                       "can be read by others (got mode %04o, allowed 0600 or stricter)",
                       (unsigned)st.st_mode & 07777);
    } else {
        len = read(fd, out, size - 1);
        if (len < 0) {
            (void)snprintf(reason, reason_size, "cannot be read: %s", strerror(errno));
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return len;
}

/* The first line of the key's file. */
static enum amb_status read_token(struct amb_config_build *build, const char *key, const char *path,
                                  const char **out)
{
    const struct amb_config_place *place = amb_config_place_of(build->store, key);
    char text[TOKEN_MAX + 2], reason[128], shown[AMB_CONFIG_SHOWN_MAX];
    ssize_t len = read_secret(path, text, sizeof(text), reason, sizeof(reason));
    if (len < 0) {
        return amb_config_fail(build, place, key, "%s %s",
                               amb_text_show(path, shown, sizeof(shown)), reason);
    }
    text[len] = '\0';
    bool has_nul = memchr(text, '\0', (size_t)len) != NULL;
    text[strcspn(text, "\r\n")] = '\0';
    if (text[0] == '\0' || strlen(text) > TOKEN_MAX || has_nul) {
        return amb_config_fail(build, place, key,
                               "its first line is no token (allowed 1 to 255 bytes)");
    }
    *out = amb_config_copy(build->store, text);
    return *out == NULL ? AMB_ENOMEM : AMB_OK;
}

static enum amb_status load_tokens(struct amb_config_build *build)
{
    struct amb_config *config = build->config;
    enum amb_status status = AMB_OK;
    config->http.token = "";
    if (config->auth.token_file[0] != '\0' && config->auth.token[0] != '\0') {
        return amb_config_fail(build, amb_config_place_of(build->store, "auth.token_file"),
                               "auth.token_file", "auth.token is set too (allowed one of them)");
    }
    if (config->auth.token_file[0] != '\0') {
        status = read_token(build, "auth.token_file", config->auth.token_file, &config->auth.token);
    }
    if (amb_config_goes_on(build, &status) && config->http.token_file[0] != '\0') {
        status = read_token(build, "http.token_file", config->http.token_file, &config->http.token);
    }
    return status;
}

/* Resolves server.cpus. A number of workers that is "auto" follows the list. */
static enum amb_status check_cpus(struct amb_config_build *build,
                                  const struct amb_config_machine *machine)
{
    struct amb_config *config = build->config;
    struct amb_config_server *server = &config->server;
    if (strcmp(server->cpus, "auto") == 0) {
        return AMB_OK;
    }
    const struct amb_config_place *place = amb_config_place_of(build->store, "server.cpus");
    char shown[AMB_CONFIG_SHOWN_MAX];
    unsigned count;
    const char *problem = amb_cpus_parse(server->cpus, server->cpu, AMB_WORKERS_MAX, &count);
    if (problem != NULL) {
        return amb_config_fail(build, place, "server.cpus",
                               "%s (got \"%s\", allowed \"auto\" or at most %u as \"0-3,8\")",
                               problem, amb_text_show(server->cpus, shown, sizeof(shown)),
                               AMB_WORKERS_MAX);
    }
    for (unsigned i = 0; i < count; i++) {
        if (!amb_cpus_has(&machine->cpus, server->cpu[i])) {
            return amb_config_fail(
                build, place, "server.cpus", "this process may not use processor %u (allowed %s)",
                server->cpu[i], amb_cpus_format(&machine->cpus, shown, sizeof(shown)));
        }
    }
    if (server->workers == 0) {
        server->workers = count;
    }
    if (server->workers > count) {
        return amb_config_fail(build, place, "server.cpus",
                               "each worker needs a processor of its own (got %u for %" PRIu32
                               " workers)",
                               count, server->workers);
    }
    server->bound = server->workers;
    return AMB_OK;
}

static enum amb_status check_workers(struct amb_config_build *build,
                                     const struct amb_config_machine *machine)
{
    struct amb_config *config = build->config;
    struct amb_config_server *server = &config->server;
    server->cores = machine->cores;
    enum amb_status status = check_cpus(build, machine);
    if (server->workers == 0) {
        uint32_t workers = machine->cores > 1 ? machine->cores - 1 : 1;
        server->workers = workers > AUTO_WORKERS_MAX ? AUTO_WORKERS_MAX : workers;
    }
    return status;
}

enum amb_status amb_config_finish(struct amb_config_build *build,
                                  const struct amb_config_machine *machine,
                                  const struct amb_config *former)
{
    struct amb_config *config = build->config;
    if (config->server.name[0] == '\0') {
        char host[64];
        (void)snprintf(host, sizeof(host), "%.63s", machine->host);
        config->server.name = amb_config_copy(build->store, host);
        if (config->server.name == NULL) {
            return AMB_ENOMEM;
        }
    }
    amb_config_elements_sort(&amb_config_roles_kind, config->roles.items, config->roles.count);
    amb_config_elements_sort(&amb_config_tenants_kind, config->tenants.items,
                             config->tenants.count);
    amb_config_elements_sort(&amb_config_quotas_kind, config->quotas.items, config->quotas.count);
    enum amb_status status = amb_config_trust_finish(build);
    if (amb_config_goes_on(build, &status)) {
        status = check_workers(build, machine);
    }
    if (amb_config_goes_on(build, &status)) {
        status = check_memory(build);
    }
    if (amb_config_goes_on(build, &status)) {
        status = check_times(build);
    }
    if (amb_config_goes_on(build, &status)) {
        status = amb_config_listen_finish(build, machine, former);
    }
    if (amb_config_goes_on(build, &status)) {
        status = amb_config_http_finish(build);
    }
    if (amb_config_goes_on(build, &status) && amb_config_faults_count(build) == 0) {
        status = check_descriptors(build, machine); /* By workers, memory and listeners. */
    }
    if (amb_config_goes_on(build, &status)) {
        status = load_tokens(build);
    }
    if (amb_config_goes_on(build, &status)) {
        status = amb_config_auth_finish(build, former);
    }
    if (amb_config_goes_on(build, &status) && amb_config_faults_count(build) == 0) {
        status = amb_config_tls_finish(build); /* By tokens, users and listeners. */
    }
    return status;
}
