/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/counting.h"

#include "broker/config/config.h"
#include "broker/control/clients/control.h"
#include "broker/count/log_lines.h"
#include "broker/shard/shard.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"
#include "wire/codec/url.h"
#include "wire/link/ucxlib/ucx_release.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const struct amb_url *first_unix(const struct amb_control *control)
{
    for (unsigned i = 0; i < control->listener_count; i++) {
        if (control->listeners[i].url.scheme == AMB_URL_UNIX) {
            return &control->listeners[i].url;
        }
    }
    return NULL;
}

/* `path` has the room for the name that `auto` stands for. */
static void choose(struct amb_counters_options *options, const char *word,
                   const struct amb_url *url,
                   char path[sizeof(url->path) + sizeof(AMB_COUNTERS_SUFFIX)])
{
    if (strcmp(word, "none") == 0) {
        options->why = "server.counters_file is \"none\"";
    } else if (strcmp(word, "auto") != 0) {
        options->path = word;
    } else if (url == NULL) {
        options->why = "there is no Unix socket for it to lie beside";
    } else {
        (void)snprintf(path, sizeof(url->path) + sizeof(AMB_COUNTERS_SUFFIX),
                       "%s" AMB_COUNTERS_SUFFIX, url->path);
        options->path = path;
        options->must_be_in_memory = true;
    }
}

static void tell(const struct amb_counters *counters, const struct amb_counters_options *options)
{
    if (counters->path[0] != '\0') {
        amb_info("counters: %s", counters->path);
    } else if (options->path == NULL) {
        amb_info("counters: in private memory: %s", counters->why);
    } else {
        amb_warn("counters: in private memory, so nobody sees them once this process is gone: "
                 "%s: %s",
                 options->path, counters->why);
    }
}

enum amb_status amb_counting_start(struct amb_counters *counters, const struct amb_config *config,
                                   struct amb_control *control)
{
    const struct amb_url *url = first_unix(control);
    char path[sizeof(url->path) + sizeof(AMB_COUNTERS_SUFFIX)],
        ucx[AMB_UCX_RELEASE_TEXT_MAX] = "off";
    struct stat st;
    if (control->ucx != NULL) {
        (void)amb_ucx_release_text(control->ucx_release, ucx, sizeof(ucx));
    }
    struct amb_counters_options options = {
        .mode = config->auth.users == NULL ? 0640 : 0600,
        .group = url != NULL && stat(url->path, &st) == 0 ? st.st_gid : (gid_t)-1,
        .workers = control->shard_count,
        .objects = config->server.counters_objects + AMB_CLOSED_MAX,
        .lines = AMB_COUNTERS_LINES,
        .losses = AMB_COUNTERS_LOSSES,
        .name = config->server.name,
        .version = AMB_BROKER_VERSION,
        .ucx = ucx,
        .epoch = control->epoch,
        .now_ns = control->started_ns,
        .real_ns = amb_clock_realtime_ns(),
    };
    choose(&options, config->server.counters_file, url, path);
    enum amb_status status = amb_counters_create(&options, counters);
    if (status != AMB_OK) {
        return status;
    }
    amb_log_lines_attach(counters);
    tell(counters, &options);
    control->counters = control->directory.counters = counters;
    control->stats = amb_counters_broker(counters);
    amb_client_closed_prepare(control);
    for (unsigned i = 0; i < control->shard_count; i++) {
        struct amb_shard *shard = control->shards[i];
        shard->counters = counters;
        amb_loss_book_init(&shard->losses, counters, i, control->shard_count);
        shard->stats = amb_counters_shard(counters, i);
        if (i < config->server.bound) {
            amb_stat_set(&shard->stats->processor, config->server.cpu[i]);
        }
    }
    return AMB_OK;
}

void amb_counting_stop(struct amb_counters *counters)
{
    amb_log_lines_detach(counters);
    amb_counters_destroy(counters);
}
