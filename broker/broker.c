/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/broker.h"

#include "broker/audit/audit.h"
#include "broker/config/config.h"
#include "broker/control/admin/admin.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/client_news.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/events.h"
#include "broker/control/clients/renew.h"
#include "broker/control/control_loop.h"
#include "broker/control/door.h"
#include "broker/control/drain.h"
#include "broker/control/requests/requests_lease.h"
#include "broker/control/service.h"
#include "broker/counting.h"
#include "broker/delivery/acks/former.h"
#include "broker/delivery/reader/sweep.h"
#include "broker/delivery/slow.h"
#include "broker/http/http.h"
#include "broker/http/http_change.h"
#include "broker/ingest/route.h"
#include "broker/memory/gpupool.h"
#include "broker/memory/limbo.h"
#include "broker/memory/maker.h"
#include "broker/memory/segment.h"
#include "broker/observe/objects.h"
#include "broker/observe/observer.h"
#include "broker/session/retire.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/segment_lease.h"
#include "broker/tls/handshaker.h"
#include "broker/worker/porter.h"
#include "broker/worker/worker.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"
#include "wire/config/transports.h"
#include "wire/link/ucxlib/ucx_context.h"
#include "wire/link/ucxlib/ucx_process.h"

#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AMB_BROKER_PATH_MAX 1024u /* log.audit is shorter */
#define BROKER_URLS_MAX (AMB_LISTENERS_MAX * 512u + 4096u)

struct amb_broker {
    const struct amb_config *config;
    struct amb_membudget budget;
    struct amb_limbo limbo;
    struct amb_ucx_context *ucx;
    struct amb_maker maker;
    struct amb_porter porter;
    struct amb_handshakers handshakers;
    struct amb_gpus gpus;
    struct amb_counters counters;
    struct amb_observer observer;
    struct amb_http *http; /* NULL: none */
    struct amb_transports transports;
    struct amb_worker *workers;
    struct amb_shard *shards[AMB_SHARDS_MAX];
    unsigned worker_count; /* initialised */
    struct amb_audit audit;
    char audit_path[AMB_BROKER_PATH_MAX]; /* "": none */
    struct amb_control control;
    struct amb_service service;
    struct amb_mail service_mail;
    struct amb_mail drain_mail;
    _Atomic unsigned drains; /* calls that drain_mail has with it; 0: it is not under way */
    bool has_control, is_running;
    pthread_t thread;
    char urls[BROKER_URLS_MAX];
};

/* Between workers and the control thread ------------------------------------------------------ */

struct segment_offer {
    struct amb_mail mail;
    uint64_t client_id, segment, size;
    struct amb_gpu_pool *pool; /* NULL: host memory */
    uint64_t gpu_offset;
    int fd;
};

static void segment_offered(struct amb_mail *mail, void *owner)
{
    struct segment_offer *offer = AMB_CONTAINER_OF(mail, struct segment_offer, mail);
    struct amb_client *client = amb_client_find(owner, offer->client_id);
    if (client == NULL) {
        if (offer->fd >= 0) {
            (void)close(offer->fd);
        }
    } else {
        Amb__Control__SegAdd add = AMB__CONTROL__SEG_ADD__INIT;
        Amb__Control__GpuRange range;
        amb__control__gpu_range__init(&range);
        add.segment = offer->segment;
        add.size = offer->size;
        if (offer->pool != NULL) {
            amb_request_gpu_range(offer->pool, offer->gpu_offset, &range);
            add.gpu = &range;
            client->has_gpu = true;
        }
        Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
        message.body_case = AMB__CONTROL__CONTROL__BODY_SEG_ADD;
        message.seg_add = &add;
        amb_client_send(client, &message, &offer->fd, offer->pool != NULL ? 0 : 1);
    }
    free(offer);
}

static void offer_segment(struct amb_shard *shard, uint64_t client_id, uint64_t segment,
                          uint64_t size, int fd)
{
    struct segment_offer *offer = calloc(1, sizeof(*offer));
    if (offer == NULL) {
        (void)close(fd); /* Deliveries stay copies. */
        return;
    }
    offer->client_id = client_id;
    offer->segment = segment;
    offer->size = size;
    offer->fd = fd;
    amb_mail_post(shard->control, &offer->mail, segment_offered);
}

static void offer_gpu(struct amb_shard *shard, uint64_t client_id,
                      const struct amb_segment *segment)
{
    struct segment_offer *offer = calloc(1, sizeof(*offer));
    if (offer == NULL) {
        amb_warn("client %" PRIu64 ": no memory to offer it GPU memory", client_id);
        return;
    }
    offer->client_id = client_id;
    offer->segment = segment->id;
    offer->size = segment->size;
    offer->pool = segment->gpu;
    offer->gpu_offset = segment->gpu_offset;
    offer->fd = -1;
    amb_mail_post(shard->control, &offer->mail, segment_offered);
}

struct session_end {
    struct amb_mail mail;
    uint64_t client_id;
    enum amb_status why;
    char text[128];
};

static void session_end_arrived(struct amb_mail *mail, void *owner)
{
    struct session_end *end = AMB_CONTAINER_OF(mail, struct session_end, mail);
    struct amb_client *client = amb_client_find(owner, end->client_id);
    if (client != NULL && end->why == AMB_ELOST) {
        amb_client_lose_link(client, end->text);
    } else if (client != NULL) {
        amb_client_send_error(client, 0, end->why, "%s", end->text);
    }
    free(end);
}

static void session_ended(struct amb_shard *shard, uint64_t client_id, enum amb_status why,
                          const char *text)
{
    struct session_end *end = malloc(sizeof(*end));
    if (end == NULL) {
        amb_error("client %" PRIu64 ": no memory to report its end", client_id);
        return;
    }
    end->client_id = client_id;
    end->why = why;
    (void)snprintf(end->text, sizeof(end->text), "%s", text == NULL ? "its link is down" : text);
    amb_mail_post(shard->control, &end->mail, session_end_arrived);
}

struct dead_letter {
    struct amb_mail mail;
    struct amb_entry *entry;
    uint32_t tenant;
    char topic[AMB_TOPIC_MAX + 1];
};

/* Its topic may have to be made, which only the directory does. */
static void dead_letter_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_control *control = owner;
    struct dead_letter *letter = AMB_CONTAINER_OF(mail, struct dead_letter, mail);
    struct amb_entry *entry = letter->entry;
    struct amb_dir_topic *topic = NULL;
    unsigned home = entry->home->index;
    entry->status = amb_directory_topic(&control->directory, letter->tenant, letter->topic,
                                        strlen(letter->topic), home, NULL, &topic);
    if (entry->status == AMB_OK) {
        entry->topic = topic->id;
        home = topic->home;
    }
    amb_route_hand_over(control->shards[home], entry);
    if (amb_events_are_wanted(control)) {
        amb_events_publish(control, letter->tenant, "$SYS.dead_letter",
                           json_pack("{s:s?}", "topic", letter->topic));
    }
    free(letter);
}

static void dead_letter(struct amb_shard *shard, struct amb_entry *entry, uint32_t tenant,
                        const char *topic)
{
    struct dead_letter *letter = malloc(sizeof(*letter));
    if (letter == NULL) {
        amb_entry_unref(entry, shard);
        return;
    }
    letter->entry = entry;
    letter->tenant = tenant;
    (void)snprintf(letter->topic, sizeof(letter->topic), "%s", topic);
    amb_mail_post(shard->control, &letter->mail, dead_letter_arrived);
}

struct note_mail {
    struct amb_mail mail;
    struct amb_note note;
};

static void note_arrived(struct amb_mail *mail, void *owner)
{
    struct note_mail *noted = AMB_CONTAINER_OF(mail, struct note_mail, mail);
    struct amb_client *client = amb_client_find(owner, noted->note.client_id);
    if (client != NULL) {
        amb_client_note(client, &noted->note);
    }
    free(noted);
}

static void noted(struct amb_shard *shard, const struct amb_note *note)
{
    struct note_mail *mail = malloc(sizeof(*mail));
    if (mail != NULL) {
        mail->note = *note;
        amb_mail_post(shard->control, &mail->mail, note_arrived);
    }
}

static const struct amb_shard_upcalls upcalls = {
    .offer_segment = offer_segment,
    .offer_gpu = offer_gpu,
    .segment_gone = amb_retire_segment,
    .session_ended = session_ended,
    .dead_letter = dead_letter,
    .topic_heard = amb_control_topic_heard,
    .noted = noted,
};

/* Start --------------------------------------------------------------------------------------- */

static enum amb_status broker_open_ucx(struct amb_broker *broker, char *error, size_t error_size)
{
    struct amb_transports *transports = &broker->transports;
    enum amb_status status =
        amb_transports_init(transports, &broker->config->transports, broker->config->store, "",
                            error, error_size, NULL);
    if (status != AMB_OK || !transports->has_ucx) {
        return status;
    }
    char library[AMB_UCX_FILE_MAX + 64];
    if (amb_ucx_library() != NULL) {
        amb_info("UCX %s, found as %s",
                 amb_ucx_library_text(amb_ucx_library(), library, sizeof(library)),
                 amb_ucx_origin_name(amb_ucx_library()->origin));
    }
    if (transports->wants_closest) {
        const char *gpus[AMB_CUDA_DEVICES_MAX];
        size_t count = amb_gpus_addresses(broker->config, gpus, AMB_CUDA_DEVICES_MAX);
        amb_transports_narrow(transports, "", gpus, count);
        amb_info("ucx: of %zu GPUs the closest devices are %s", count, transports->net_devices);
    }
    return amb_ucx_context_create(&transports->options, error, error_size, &broker->ucx);
}

static enum amb_status broker_make_workers(struct amb_broker *broker)
{
    unsigned count = broker->config->server.workers;
    _Static_assert(AMB_SHARDS_MAX == AMB_WORKERS_MAX, "a shard for each worker");
    _Static_assert(AMB_LISTENERS_MAX == AMB_CONFIG_DOORS_MAX, "a listener for each door");
    amb_assert(count >= 1 && count <= AMB_SHARDS_MAX);
    broker->workers = calloc(count, sizeof(*broker->workers));
    if (broker->workers == NULL) {
        return AMB_ENOMEM;
    }
    for (unsigned i = 0; i < count; i++) {
        enum amb_status status =
            amb_worker_init(&broker->workers[i], i, broker->config, &broker->budget);
        if (status != AMB_OK) {
            return status;
        }
        struct amb_shard *shard = &broker->workers[i].shard;
        broker->shards[i] = shard;
        broker->worker_count++;
        shard->peers = broker->shards;
        shard->peer_count = count;
        shard->control = &broker->control.inbox;
        shard->ucx.context = broker->ucx;
        shard->memory.maker = &broker->maker;
        shard->memory.porter = &broker->porter;
        shard->memory.gpus = &broker->gpus;
        shard->upcalls = &upcalls;
    }
    return AMB_OK;
}

static void broker_write_urls(struct amb_broker *broker)
{
    size_t len = 0;
    for (unsigned i = 0; i < broker->control.listener_count; i++) {
        char url[512];
        amb_url_format(&broker->control.listeners[i].url, url, sizeof(url));
        int written = snprintf(broker->urls + len, sizeof(broker->urls) - len, "%s%s",
                               i == 0 ? "" : " ", url);
        len += written > 0 ? (size_t)written : 0;
        amb_assert(len < sizeof(broker->urls));
    }
    const char *http = amb_http_urls(broker->http);
    (void)snprintf(broker->urls + len, sizeof(broker->urls) - len, "%s%s",
                   http[0] == '\0' ? "" : " ", http);
}

static bool has_encrypted_door(const struct amb_config *config)
{
    for (size_t i = 0; i < config->doors.count; i++) {
        if (config->doors.items[i].scheme == AMB_URL_TLS) {
            return true;
        }
    }
    return false;
}

static enum amb_status broker_start_handshakers(struct amb_broker *broker,
                                                const struct amb_config *config)
{
    _Static_assert(AMB_HANDSHAKERS_MAX >= 4, "tls.threads allows so many");
    enum amb_status status = amb_handshakers_start(&broker->handshakers, config->tls.threads,
                                                   &broker->control.inbox, amb_door_handshake_over);
    if (status == AMB_OK) {
        broker->control.handshakers = &broker->handshakers;
    } else {
        amb_handshakers_stop(&broker->handshakers); /* Those of them that there are. */
    }
    return status;
}

static void *control_main(void *arg)
{
    (void)pthread_setname_np(pthread_self(), "amb-control");
    amb_control_run(arg);
    return NULL;
}

/* A failure without a sentence of its own gets this one. */
static enum amb_status say_what(enum amb_status status, const char *what, char *error,
                                size_t error_size)
{
    if (status != AMB_OK && error[0] == '\0') {
        (void)snprintf(error, error_size, "%s: %s", what, amb_status_text(status));
    }
    return status;
}

static void keep_path(struct amb_broker *broker, const char *path)
{
    (void)snprintf(broker->audit_path, sizeof(broker->audit_path), "%s", path);
}

static enum amb_status open_audit(const char *path, struct amb_audit_file *out, char *error,
                                  size_t error_size)
{
    char why[AMB_AUDIT_WHY_MAX];
    enum amb_status status = amb_audit_file_open(path, out, why);
    if (status != AMB_OK) {
        (void)snprintf(error, error_size, "log.audit: %s", why);
    }
    return status;
}

/* Before a socket opens: nobody comes in who is not recorded. */
static enum amb_status broker_start_audit(struct amb_broker *broker, char *error, size_t error_size)
{
    struct amb_audit_file file;
    keep_path(broker, broker->config->log.audit);
    if (broker->audit_path[0] == '\0') {
        return AMB_OK;
    }
    enum amb_status status = open_audit(broker->audit_path, &file, error, error_size);
    if (status == AMB_OK) {
        status = amb_audit_start(&broker->audit, &file, broker->audit_path);
        if (status != AMB_OK) {
            amb_audit_file_close(&file);
        }
    }
    return status;
}

static enum amb_status broker_run(struct amb_broker *broker, char *error, size_t error_size)
{
    enum amb_status status =
        say_what(broker_open_ucx(broker, error, error_size), "ucx", error, error_size);
    if (status == AMB_OK) {
        status = say_what(amb_maker_start(&broker->maker), "the thread that makes segments", error,
                          error_size);
    }
    if (status == AMB_OK) {
        status = say_what(amb_porter_start(&broker->porter), "the thread that makes rings", error,
                          error_size);
    }
    if (status == AMB_OK) {
        status = amb_gpus_start(&broker->gpus, broker->config, error, error_size);
    }
    if (status == AMB_OK) {
        status = say_what(broker_make_workers(broker), "the workers' memory and descriptors", error,
                          error_size);
    }
    if (status == AMB_OK) {
        status = say_what(broker_start_audit(broker, error, error_size),
                          "the thread of the audit log", error, error_size);
    }
    if (status == AMB_OK) {
        broker->has_control = true;
        status =
            amb_control_init(&broker->control, broker->config, broker->shards, broker->worker_count,
                             &broker->budget, broker->ucx, &broker->transports, error, error_size);
        status = say_what(status, "the control thread's descriptors", error, error_size);
    }
    if (status == AMB_OK) {
        status = say_what(amb_counting_start(&broker->counters, broker->config, &broker->control),
                          "the memory of the counters", error, error_size);
    }
    if (status == AMB_OK) {
        status = say_what(amb_http_create(broker->config, &broker->control, &broker->counters,
                                          &broker->observer, error, error_size, &broker->http),
                          "the memory of HTTP", error, error_size);
    }
    if (status == AMB_OK) {
        status = say_what(amb_observer_start(&broker->observer, &broker->counters),
                          "the thread that makes views", error, error_size);
        broker->control.observer = &broker->observer;
    }
    for (unsigned i = 0; i < broker->worker_count && status == AMB_OK; i++) {
        status = say_what(amb_worker_start(&broker->workers[i]),
                          "a worker's thread or its first segment", error, error_size);
    }
    if (status == AMB_OK &&
        (has_encrypted_door(broker->config) || broker->config->auth.users != NULL)) {
        status = say_what(broker_start_handshakers(broker, broker->config), "the threads for TLS",
                          error, error_size);
    }
    if (status != AMB_OK) {
        return status;
    }
    broker_write_urls(broker);
    broker->control.porter = &broker->porter;
    broker->control.audit = broker->audit.is_running ? &broker->audit : NULL;
    if (pthread_create(&broker->thread, NULL, control_main, &broker->control) != 0) {
        return say_what(AMB_ELIMIT, "the control thread", error, error_size);
    }
    broker->is_running = true;
    return AMB_OK;
}

enum amb_status amb_broker_start(const struct amb_config *config, char *error, size_t error_size,
                                 struct amb_broker **out)
{
    char unused[1];
    if (error == NULL) {
        error = unused;
        error_size = sizeof(unused);
    }
    error[0] = '\0';
    struct amb_broker *broker = calloc(1, sizeof(*broker));
    if (broker == NULL) {
        return AMB_ENOMEM;
    }
    broker->config = config;
    broker->budget.max = config->memory.host.size;
    amb_limbo_init(&broker->limbo, &broker->maker.inbox);
    broker->budget.limbo = &broker->limbo;
    broker->maker.budget = &broker->budget;
    _Static_assert(AMB_LEASES_MAX == AMB_CONFIG_LEASES_LEAST, "one session's, counted for all");
    broker->budget.max_leases = config->server.max_leases + AMB_LEASES_MAX;
    enum amb_status status = broker_run(broker, error, error_size);
    if (status != AMB_OK) {
        if (error[0] == '\0') {
            (void)snprintf(error, error_size, "%s", amb_status_text(status));
        }
        amb_broker_destroy(&broker);
        return status;
    }
    *out = broker;
    return AMB_OK;
}

const char *amb_broker_urls(const struct amb_broker *broker)
{
    return broker->urls;
}

/* End ----------------------------------------------------------------------------------------- */

static void drain_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_broker *broker = AMB_CONTAINER_OF(mail, struct amb_broker, drain_mail);
    for (unsigned calls = atomic_exchange(&broker->drains, 0); calls > 0; calls--) {
        amb_drain_begin(owner); /* The mail may be under way again. */
    }
}

/* An end needs no memory. */
void amb_broker_drain(struct amb_broker *broker)
{
    if (atomic_fetch_add(&broker->drains, 1) == 0) {
        amb_mail_post(&broker->control.inbox, &broker->drain_mail, drain_arrived);
    }
}

struct reload {
    struct amb_mail mail;
    const struct amb_config *config; /* a reference */
    struct amb_audit_file audit;     /* where it is another one */
    bool has_audit;
};

static void use_audit(struct amb_broker *broker, const struct reload *reload)
{
    struct amb_audit *audit = &broker->audit;
    const char *path = reload->config->log.audit;
    struct amb_audit_file file = reload->audit;
    if (audit->is_running) {
        amb_audit_use(audit, &file, path);
    } else if (path[0] != '\0' && amb_audit_start(audit, &file, path) != AMB_OK) {
        amb_error("log.audit: no thread for it: nothing is recorded");
        amb_audit_file_close(&file);
    }
    broker->control.audit = path[0] != '\0' && audit->is_running ? audit : NULL;
}

static void reload_arrived(struct amb_mail *mail, void *owner)
{
    struct reload *reload = AMB_CONTAINER_OF(mail, struct reload, mail);
    struct amb_control *control = owner;
    struct amb_broker *broker = AMB_CONTAINER_OF(control, struct amb_broker, control);
    struct amb_auth_users *users = reload->config->auth.users;
    if (reload->has_audit) {
        use_audit(broker, reload);
    }
    if (users != NULL && control->handshakers == NULL &&
        broker_start_handshakers(broker, reload->config) != AMB_OK) {
        amb_error("reload: users cannot log in by keys: no thread for signatures");
    }
    amb_control_use_config(control, reload->config);
    amb_renew_users(control, users);
    amb_renew_quotas(control);
    amb_config_unref(&reload->config);
    free(reload);
}

enum amb_status amb_broker_reload(struct amb_broker *broker, const struct amb_config *config,
                                  char *error, size_t error_size)
{
    const char *path = config->log.audit;
    struct amb_http_change *http = NULL;
    enum amb_status status = amb_http_prepare(broker->http, config, error, error_size, &http);
    if (status != AMB_OK) {
        return status;
    }
    struct reload *reload = calloc(1, sizeof(*reload));
    if (reload == NULL) {
        amb_http_drop(&http);
        (void)snprintf(error, error_size, "no memory");
        return AMB_ENOMEM;
    }
    reload->audit.fd = -1;
    reload->has_audit = strcmp(path, broker->audit_path) != 0;
    if (reload->has_audit && path[0] != '\0') {
        status = open_audit(path, &reload->audit, error, error_size);
        if (status != AMB_OK) {
            amb_http_drop(&http);
            free(reload);
            return status;
        }
    }
    keep_path(broker, path);
    reload->config = amb_config_ref(config);
    amb_log_set_level(config->log.level);
    amb_http_use(broker->http, &http);
    amb_mail_post(&broker->control.inbox, &reload->mail, reload_arrived);
    return AMB_OK;
}

/* ---- commands of clients ---- */

uint64_t amb_broker_reloads_asked(const struct amb_broker *broker)
{
    /* Acquire: with the number, what the control thread did before is seen. */
    return atomic_load_explicit(&broker->control.reloads_asked, memory_order_acquire);
}

struct reloaded {
    struct amb_mail mail;
    uint64_t upto;
    bool is_done;
    char *rows; /* or NULL */
    char text[];
};

static void reloaded_arrived(struct amb_mail *mail, void *owner)
{
    struct reloaded *reloaded = AMB_CONTAINER_OF(mail, struct reloaded, mail);
    struct amb_broker_stats *stats = ((struct amb_control *)owner)->stats;
    amb_stat_add(reloaded->is_done ? &stats->reloads : &stats->reloads_refused, 1);
    amb_admin_reloaded(owner, reloaded->upto, reloaded->is_done, reloaded->text, reloaded->rows);
    free(reloaded->rows);
    free(reloaded);
}

void amb_broker_reloaded(struct amb_broker *broker, uint64_t upto, bool is_done, const char *text,
                         const char *rows)
{
    struct reloaded *reloaded = malloc(sizeof(*reloaded) + strlen(text) + 1);
    if (reloaded == NULL) {
        amb_error("reload: no memory to answer those who asked for it");
        return;
    }
    reloaded->upto = upto;
    reloaded->is_done = is_done;
    reloaded->rows = rows == NULL ? NULL : strdup(rows);
    memcpy(reloaded->text, text, strlen(text) + 1);
    amb_mail_post(&broker->control.inbox, &reloaded->mail, reloaded_arrived);
}

void amb_broker_use_hooks(struct amb_broker *broker, const struct amb_control_hooks *hooks)
{
    /* Release: with the pointer, what it points to is seen. */
    atomic_store_explicit(&broker->control.hooks, hooks, memory_order_release);
}

static void service_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_control *control = owner;
    control->service = &AMB_CONTAINER_OF(mail, struct amb_broker, service_mail)->service;
}

void amb_broker_use_notify(struct amb_broker *broker, struct amb_notify *notify)
{
    struct amb_service *service = &broker->service;
    char name[32];
    amb_service_init(service, notify, &broker->control.inbox);
    for (unsigned i = 0; i < broker->worker_count; i++) {
        (void)snprintf(name, sizeof(name), "worker-%u", i);
        amb_service_add(service, &broker->shards[i]->inbox, name);
    }
    amb_service_add(service, &broker->maker.inbox, "maker");
    for (uint32_t i = 0; i < broker->gpus.count; i++) {
        (void)snprintf(name, sizeof(name), "copier-%u", (unsigned)i);
        if (broker->gpus.pools[i].is_running) {
            amb_service_add(service, &broker->gpus.pools[i].inbox, name);
        }
    }
    amb_mail_post(&broker->control.inbox, &broker->service_mail, service_arrived);
}

static void reopen_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_control *control = owner;
    free(mail);
    if (control->audit != NULL) {
        amb_audit_reopen(control->audit);
    } else {
        amb_info("no log.audit: nothing to open again");
    }
}

void amb_broker_reopen_logs(struct amb_broker *broker)
{
    struct amb_mail *mail = malloc(sizeof(*mail));
    if (mail == NULL) {
        amb_error("no memory to open log.audit again");
        return;
    }
    amb_mail_post(&broker->control.inbox, mail, reopen_arrived);
}

int amb_broker_wait(struct amb_broker *broker)
{
    if (broker->is_running) {
        (void)pthread_join(broker->thread, NULL);
        broker->is_running = false;
    }
    return 0;
}

void amb_broker_destroy(struct amb_broker **broker)
{
    struct amb_broker *b = *broker;
    if (b == NULL) {
        return;
    }
    *broker = NULL;
    amb_assert(!b->is_running);
    amb_audit_stop(&b->audit); /* Answers to commands are in control's mail. */
    for (unsigned i = 0; i < b->worker_count; i++) {
        amb_worker_stop(&b->workers[i]);
    }
    for (unsigned i = 0; i < b->worker_count; i++) {
        amb_objects_end(&b->workers[i].shard);
    }
    amb_observer_stop(&b->observer);
    amb_handshakers_stop(&b->handshakers); /* Those that are through are in control's mail. */
    amb_porter_stop(&b->porter);           /* The rings it has made are in the workers' mail. */
    b->control.porter = NULL;
    for (unsigned i = 0; i < b->worker_count; i++) {
        b->workers[i].shard.memory.porter = NULL; /* Descriptors that their mail closes are closed
                                                   * at once. */
    }
    /* A borrower may have asked for a copy at home, where nobody reads mail any more. */
    for (unsigned i = 0; i < b->worker_count; i++) {
        (void)amb_inbox_run(&b->workers[i].shard.inbox);
    }
    amb_maker_stop(&b->maker);      /* Segments that it has made are in the workers' mail. */
    if (!amb_gpus_stop(&b->gpus)) { /* The same with what they have copied. */
        _exit(EXIT_FAILURE);        /* A copier that cannot be ended uses all of this. */
    }
    for (unsigned i = 0; i < b->worker_count; i++) {
        b->workers[i].shard.memory.maker = NULL;
        b->workers[i].shard.memory.gpus = NULL; /* Nothing more is copied. */
    }
    for (unsigned i = 0; i < b->worker_count; i++) {
        amb_formers_finish(&b->workers[i].shard); /* Members may be leaving. */
    }
    b->limbo.looker = NULL;
    /* A copy that came, a borrower that is told of it, and the references that this sets free. Then
     * the last takes that members of queues gave back. Topics still stand. */
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < b->worker_count; i++) {
            (void)amb_inbox_run(&b->workers[i].shard.inbox);
        }
    }
    for (unsigned i = 0; i < b->worker_count; i++) {
        amb_sweep_finish(&b->workers[i].shard); /* No cursor may outlive its topic. */
    }
    if (b->has_control) {
        /* The topics that there were can be seen in the file. */
        b->control.counters = b->control.directory.counters = NULL;
        amb_control_fini(&b->control);
    }
    /* Entries may still be on their way home between stopped workers: the shards run their mail. */
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < b->worker_count; i++) {
            (void)amb_inbox_run(&b->workers[i].shard.inbox);
        }
    }
    for (unsigned i = 0; i < b->worker_count; i++) {
        b->workers[i].shard.upcalls = &amb_shard_no_upcalls;
        amb_worker_fini(&b->workers[i]);
    }
    free(b->workers);
    amb_limbo_fini(&b->limbo, &b->budget);
    if (b->ucx != NULL) {
        amb_ucx_context_destroy(&b->ucx);
    }
    amb_gpus_fini(&b->gpus);    /* UCX may have had it registered. */
    amb_http_destroy(&b->http); /* Threads had mail of it. */
    amb_counting_stop(&b->counters);
    free(b);
}
