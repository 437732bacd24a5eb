/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/control_loop.h"

#include "broker/audit/audit.h"
#include "broker/base/log_fold.h"
#include "broker/base/peer.h"
#include "broker/base/user.h"
#include "broker/config/config.h"
#include "broker/control/admin/admin.h"
#include "broker/control/admin/tracing.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/client_listed.h"
#include "broker/control/clients/client_rest.h"
#include "broker/control/clients/client_session.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/expiry.h"
#include "broker/control/clients/quotas.h"
#include "broker/control/clients/renew.h"
#include "broker/control/directory/directory_accounts.h"
#include "broker/control/directory/directory_chores.h"
#include "broker/control/directory/directory_counts.h"
#include "broker/control/directory/directory_leave.h"
#include "broker/control/directory/directory_wake.h"
#include "broker/control/directory/queues.h"
#include "broker/control/door.h"
#include "broker/control/drain.h"
#include "broker/control/requests/requests.h"
#include "broker/control/service.h"
#include "broker/control/status/status.h"
#include "broker/control/status/views.h"
#include "broker/count/counters.h"
#include "broker/memory/gpupool.h"
#include "broker/tls/handshaker.h"
#include "broker/topic/topic.h"
#include "broker/worker/porter.h"
#include "wire/base/clock.h"
#include "wire/base/host.h"
#include "wire/base/log.h"
#include "wire/link/ring/ring.h"
#include "wire/link/ucxlib/ucx_process.h"
#include "wire/link/ucxlib/ucx_settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* More than the door lets stand in front of it. So a peer that has been let in is heard in the same
 * or the next round. A crowd behind it cannot push it out before. */
#define CONTROL_EVENTS (2 * AMB_HALF_OPEN_MAX)
#define CONTROL_TICK_NS (250 * AMB_NS_PER_MS)
#define CONTROL_BEHIND_NS (3 * AMB_NS_PER_MS)
/* Without clients, files of TLS are looked at. */
#define CONTROL_ALONE_MS 600000
#define CONTROL_DRAIN_TICK_NS (5 * AMB_NS_PER_MS)
#define CONTROL_RESUME_NS_MAX (50 * AMB_NS_PER_MS)
/* After the clients were told, quarantined sessions are given up at once, others in this time. */
#define CONTROL_END_NS (2 * AMB_NS_PER_SEC)

static void inbox_on_events(struct amb_watch *watch, uint32_t events)
{
    (void)watch;
    (void)events; /* The loop runs the inbox after every wait. */
}

static enum amb_status control_open(struct amb_control *control, char *error, size_t error_size)
{
    enum amb_status status = amb_watches_init(&control->watches);
    control->inbox_watch.fn = inbox_on_events;
    if (status == AMB_OK) {
        status =
            amb_watch_add(&control->watches, &control->inbox_watch, control->inbox.bell, EPOLLIN);
    }
    if (status == AMB_OK) {
        status = amb_directory_init(&control->directory, control->config, control->shards,
                                    control->shard_count);
    }
    if (status == AMB_OK) {
        status = amb_identities_init(&control->identities);
    }
    if (status == AMB_OK) {
        status = amb_parties_init(&control->parties, control->shard_count);
    }
    if (status == AMB_OK) {
        status = amb_tenants_init(&control->tenants);
    }
    if (status == AMB_OK) {
        status = amb_rights_table_init(&control->rights);
    }
    for (size_t i = 0; i < control->config->doors.count && status == AMB_OK; i++) {
        status = amb_door_open(control, &control->config->doors.items[i], error, error_size);
    }
    return status;
}

/* Asked once, at the start: where sessions are made it would be the clients' failure. */
static const char *ring_obstacle(void)
{
    if (amb_ring_is_possible()) {
        return NULL;
    }
    amb_warn("no ring links: this system cannot read an eventfd without waiting, as Linux 5.8 can; "
             "clients on this host have streams, and no message in place");
    return "link ring: the broker's system has none, for it is older than Linux 5.8";
}

enum amb_status amb_control_init(struct amb_control *control, const struct amb_config *config,
                                 struct amb_shard *const *shards, unsigned shard_count,
                                 struct amb_membudget *budget, struct amb_ucx_context *ucx,
                                 const struct amb_transports *transports, char *error,
                                 size_t error_size)
{
    memset(control, 0, sizeof(*control));
    control->config = amb_config_ref(config);
    control->stats = &control->own_stats;
    control->users = amb_auth_users_ref(config->auth.users);
    control->budget = budget;
    control->shards = shards;
    control->shard_count = shard_count;
    control->ucx = ucx;
    control->transports = transports;
    control->ucx_release = ucx == NULL ? 0 : amb_ucx_release(); /* asking loads it */
    amb_ucx_segment_sizes(&control->ucx_tx_seg, &control->ucx_rx_seg);
    control->on_request = amb_request_handle;
    control->overflow_uid = amb_user_overflow();
    control->host = amb_host_id("");
    control->pid_ns = amb_host_namespace("pid");
    control->ipc_ns = amb_host_namespace("ipc");
    control->net_ns = amb_host_namespace("net");
    control->watches.epoll_fd = -1;
    control->drain_limit_ns = -1;
    control->kernel_names_peers = amb_peer_kernel_tells();
    control->no_ring = ring_obstacle();
    control->now_ns = amb_clock_monotonic_ns();
    control->started_ns = control->now_ns;
    amb_random_bytes(&control->epoch, sizeof(control->epoch));
    amb_list_init(&control->views);
    amb_list_init(&control->looks);
    amb_list_init(&control->clients);
    amb_list_init(&control->dead);
    amb_list_init(&control->unread);
    amb_list_init(&control->revoked);
    amb_list_init(&control->unrenewed);
    amb_list_init(&control->resting);
    amb_list_init(&control->reloads);
    amb_list_init(&control->traces);
    control->indices = calloc(shard_count, sizeof(*control->indices));
    if (control->indices == NULL) {
        return AMB_ENOMEM;
    }
    enum amb_status status = amb_half_open_init(&control->half_open);
    if (status == AMB_OK) {
        status = amb_inbox_init(&control->inbox, control);
    }
    if (status == AMB_OK) {
        status = control_open(control, error, error_size);
        control->directory.owner_text = amb_client_owner_text;
        control->directory.tenant_text = amb_client_tenant_text;
    }
    return status;
}

void amb_control_fini(struct amb_control *control)
{
    amb_door_close(control);
    control->directory.is_over = control->is_over = true;
    if (control->inbox.bell > 0) {
        amb_status_end(control);
        (void)amb_inbox_run(&control->inbox); /* A call to drain that came too late, and pages. */
        amb_views_run(control);
        amb_admin_end(control);
        amb_tracing_fini(control);
    }
    amb_client_bury(control);
    amb_queues_forget(&control->directory);
    amb_directory_fini(&control->directory);
    amb_identities_fini(&control->identities);
    amb_half_open_fini(&control->half_open);
    amb_parties_fini(&control->parties);
    amb_tenants_fini(&control->tenants);
    amb_inbox_fini(&control->inbox);
    amb_watches_fini(&control->watches);
    for (unsigned i = 0; i < control->shard_count && control->indices != NULL; i++) {
        free(control->indices[i].generations);
        free(control->indices[i].clients);
    }
    free(control->indices);
    control->indices = NULL;
    amb_blocklist_fini(&control->blocked);
    amb_auth_users_unref(&control->users);
    amb_rights_table_fini(&control->rights);
    amb_idmap_fini(&control->by_id);
    amb_config_unref(&control->config);
}

/* A topic is freed by the control thread, when its home has forgotten it: behind this mail. */
static void topic_heard_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_control *control = owner;
    amb_directory_heard(&control->directory,
                        AMB_CONTAINER_OF(mail, struct amb_topic, audience.heard));
}

void amb_control_topic_heard(struct amb_topic *topic)
{
    amb_mail_post(topic->shard->control, &topic->audience.heard, topic_heard_arrived);
}

static void control_count_tls(struct amb_control *control)
{
    const struct amb_handshakers *handshakers = control->handshakers;
    if (handshakers == NULL) {
        return;
    }
    struct amb_broker_stats *stats = control->stats;
    const uint64_t *ended = handshakers->stats.ended;
    amb_stat_set(&stats->tls_half_open, handshakers->half_open);
    amb_stat_set(&stats->tls_handshakes, ended[AMB_HANDSHAKE_DONE]);
    amb_stat_set(&stats->tls_failed, ended[AMB_HANDSHAKE_FAILED]);
    amb_stat_set(&stats->tls_plain, ended[AMB_HANDSHAKE_PLAIN]);
    amb_stat_set(&stats->tls_timeouts, ended[AMB_HANDSHAKE_LATE]);
    amb_stat_set(&stats->tls_evicted, ended[AMB_HANDSHAKE_EVICTED]);
}

static void control_count_audit(struct amb_control *control)
{
    const struct amb_audit *audit = control->audit;
    if (audit != NULL) {
        amb_stat_set(&control->stats->audit_lines, amb_stat_get(&audit->lines));
        amb_stat_set(&control->stats->audit_lost, amb_stat_get(&audit->lost));
    }
}

static uint64_t count_pools(const struct amb_gpus *gpus)
{
    uint64_t count = 0;
    for (uint32_t i = 0; gpus != NULL && i < gpus->count; i++) {
        count += amb_gpu_pool_is_made(&gpus->pools[i]) && amb_gpu_pool_is_sound(&gpus->pools[i]);
    }
    return count;
}

/* Tells readers of the counters how much there is. */
static void control_count(struct amb_control *control)
{
    struct amb_broker_stats *stats = control->stats;
    const struct amb_config *config = control->config;
    const struct amb_directory *directory = &control->directory;
    const struct amb_membudget *budget = control->budget;
    amb_stat_set(&stats->workers, control->shard_count);
    amb_stat_set(&stats->clients, amb_control_sessions(control));
    amb_stat_set(&stats->clients_limit, config->server.max_connections);
    amb_stat_set(&stats->connecting, control->half_open.clients + control->opening_count);
    amb_stat_set(&stats->topics, directory->topic_count);
    amb_stat_set(&stats->topics_limit, config->limits.max_topics);
    amb_stat_set(&stats->subscriptions, directory->sub_count);
    amb_stat_set(&stats->subscriptions_limit, config->limits.max_subscriptions);
    amb_stat_set(&stats->pairs, directory->pair_count);
    amb_stat_set(&stats->pairs_limit, config->limits.max_pairs);
    amb_stat_set(&stats->memory_bytes, atomic_load_explicit(&budget->used, memory_order_relaxed));
    amb_stat_set(&stats->leased_bytes, atomic_load_explicit(&budget->leased, memory_order_relaxed));
    amb_stat_set(&stats->memory_limit_bytes, budget->max);
    amb_stat_set(&stats->gpu_pools, count_pools(control->shards[0]->memory.gpus));
    control_count_tls(control);
    control_count_audit(control);
    if (control->counters != NULL) {
        amb_counters_beat(control->counters, control->now_ns, amb_clock_realtime_ns());
    }
}

/* The messages that have come so far. */
static uint64_t control_messages(const struct amb_control *control)
{
    uint64_t messages = 0;
    for (unsigned i = 0; i < control->shard_count; i++) {
        messages += amb_stat_get(&control->shards[i]->stats->msgs_in);
    }
    return messages;
}

/* That messages and leases use: segments stay when they are empty. */
static uint64_t control_memory(const struct amb_control *control)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < control->shard_count; i++) {
        bytes += amb_stat_get(&control->shards[i]->stats->memory_used);
    }
    return bytes;
}

static void control_tell_service(struct amb_control *control)
{
    if (control->service == NULL) {
        return;
    }
    struct amb_service_figures figures = {
        .clients = amb_control_sessions(control),
        .messages = control_messages(control),
        .memory = control_memory(control),
        .memory_max = control->budget->max,
        .is_draining = control->is_draining,
        .left = control->backlog,
    };
    amb_service_run(control->service, &figures, control->now_ns);
}

/* The loop ------------------------------------------------------------------------------------ */

/*
 * Deadlines are looked at only after everything readable was read, and move by as much as we
 * ourselves stood still. So a broker that was stopped expires nobody.
 */
static void control_tick(struct amb_control *control)
{
    int64_t now_ns = amb_clock_monotonic_ns();
    int64_t since_ns = now_ns - control->tick_ns;
    if (control->tick_ns / CONTROL_TICK_NS == now_ns / CONTROL_TICK_NS) {
        return;
    }
    int64_t stall_ns = control->tick_ns == 0 || since_ns < 4 * CONTROL_TICK_NS ? 0 : since_ns;
    control->tick_ns = now_ns;
    amb_directory_tick(&control->directory);
    amb_queues_tick(&control->directory);
    amb_parties_sweep(&control->parties, now_ns);
    amb_log_fold_tick(now_ns);
    amb_quotas_tick(control);
    if (control->shards[0]->memory.gpus != NULL) {
        amb_gpus_look(control->shards[0]->memory.gpus, now_ns);
    }
    AMB_LIST_FOR_EACH_SAFE (node, &control->clients) {
        struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        client->seen_ns += stall_ns;
        client->deadline_ns += stall_ns;
        amb_client_rest_tell(client);
        amb_client_tick(client, now_ns);
    }
}

/* Ticks lie on a grid of the host's clock, as the heartbeats of its clients do, and a little behind
 * them: one wake-up serves both. */
static int control_own_timeout_ms(const struct amb_control *control)
{
    int64_t ns = CONTROL_TICK_NS - control->now_ns % CONTROL_TICK_NS + CONTROL_BEHIND_NS;
    if (amb_directory_is_busy(&control->directory) || !amb_list_is_empty(&control->unread) ||
        amb_renew_is_busy(control)) {
        return 0;
    }
    if (control->is_draining) {
        ns = CONTROL_DRAIN_TICK_NS;
    } else if (control->resume_accept_ns != 0) {
        int64_t left_ns = control->resume_accept_ns - control->now_ns;
        ns = left_ns < AMB_NS_PER_MS           ? AMB_NS_PER_MS
             : left_ns < CONTROL_RESUME_NS_MAX ? left_ns + AMB_NS_PER_MS
                                               : CONTROL_RESUME_NS_MAX;
    } else if (amb_list_is_empty(&control->clients) && amb_list_is_empty(&control->looks)) {
        return amb_log_fold_waits()                   ? (int)(AMB_LOG_FOLD_NS / AMB_NS_PER_MS)
               : control->config->tls.context != NULL ? CONTROL_ALONE_MS
                                                      : -1;
    }
    if (!amb_list_is_empty(&control->resting) && ns > AMB_REST_NS) {
        ns = AMB_REST_NS;
    }
    return (int)(ns / AMB_NS_PER_MS);
}

/* ... and not longer than the service manager may wait for a sign. */
static int control_timeout_ms(const struct amb_control *control)
{
    int own_ms = control_own_timeout_ms(control);
    int64_t due_ns = control->service == NULL ? INT64_MAX : amb_service_due_ns(control->service);
    if (due_ns == INT64_MAX || own_ms == 0) {
        return own_ms;
    }
    int64_t left_ms =
        due_ns <= control->now_ns ? 0 : (due_ns - control->now_ns) / AMB_NS_PER_MS + 1;
    left_ms = left_ms < CONTROL_ALONE_MS ? left_ms : CONTROL_ALONE_MS;
    return own_ms < 0 || left_ms < own_ms ? (int)left_ms : own_ms;
}

/* Topics have come, and with them a subscription reads more than its client may. */
static void control_end_over(struct amb_control *control)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&control->directory.over)) != NULL) {
        struct amb_dir_sub *sub = AMB_CONTAINER_OF(node, struct amb_dir_sub, of_over);
        struct amb_client *client = sub->account == NULL ? NULL : sub->account->owner;
        if (client == NULL) {
            amb_warn("a durable name does not read all topics of %s (%s)",
                     amb_topic_shown(sub->pattern), sub->over);
            sub->over = NULL; /* It is asked anew with the next topic. */
        } else if (sub->over == amb_pairs_quota) {
            char text[AMB_QUOTA_TEXT_MAX];
            const struct amb_account *full =
                amb_account_full(amb_client_account(client), AMB_QUOTA_PAIRS, 1);
            amb_client_send_error(client, 0, AMB_ELIMIT, "%s",
                                  full == NULL ? sub->over
                                               : amb_quota_text(full, AMB_QUOTA_PAIRS, text));
        } else {
            amb_client_send_error(client, 0, AMB_ELIMIT,
                                  "limit: its subscriptions read too many topics (%s)", sub->over);
        }
    }
}

static void control_round(struct amb_control *control)
{
    bool was_alone = amb_list_is_empty(&control->clients);
    bool may_sleep = amb_inbox_arm(&control->inbox);
    struct epoll_event events[CONTROL_EVENTS];
    int count = epoll_wait(control->watches.epoll_fd, events, CONTROL_EVENTS,
                           may_sleep ? control_timeout_ms(control) : 0);
    control->now_ns = amb_clock_monotonic_ns();
    control->directory.now_ns = control->now_ns;
    if (was_alone) {
        control->tick_ns = control->now_ns; /* Without clients we sleep for ever: not a stall. */
        amb_log_fold_tick(control->now_ns); /* Where nobody is, there are no ticks. */
    }
    amb_inbox_disarm(&control->inbox, true);
    control->round++;
    for (int i = 0; i < count; i++) {
        amb_watches_tell(&control->watches, &events[i]);
    }
    amb_client_read_on(control);
    amb_directory_tell(&control->directory);
    (void)amb_inbox_run(&control->inbox);
    amb_left_maps_look(control, amb_clock_realtime_ns() / AMB_NS_PER_SEC);
    amb_renew_some(control);
    amb_renew_retire(control);
    amb_client_raise_fallen(control);
    amb_client_rest_look(control);
    if (control->resume_accept_ns != 0 && control->now_ns >= control->resume_accept_ns) {
        amb_door_resume(control);
    }
    /* Not everything was read: deadlines wait a little, but not for as long as a flood lasts. */
    if (count < (int)CONTROL_EVENTS || control->now_ns - control->tick_ns >= 2 * CONTROL_TICK_NS) {
        control_tick(control);
    }
    amb_expiry_look(control);
    amb_directory_work(&control->directory);
    control_end_over(control);
    amb_drain_tick(control);
    amb_views_run(control);
    amb_status_run(control);
    amb_tracing_run(control);
    amb_client_bury(control);
    amb_directory_tell(&control->directory);
    control_count(control);
    control_tell_service(control);
    uint64_t took_ns = (uint64_t)(amb_clock_monotonic_ns() - control->now_ns);
    if (took_ns > amb_stat_get(&control->stats->longest_round_ns)) {
        amb_stat_set(&control->stats->longest_round_ns, took_ns);
    }
}

/* Sessions that are quarantined for a living process end with the broker. */
static void control_give_up_quarantine(struct amb_control *control)
{
    AMB_LIST_FOR_EACH_SAFE (node, &control->clients) {
        struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        amb_client_give_up(client);
    }
}

void amb_control_run(struct amb_control *control)
{
    control_count(control); /* Readers may come before the first client. */
    while (!control->is_over) {
        control_round(control);
    }
    amb_admin_end(control);
    amb_status_end(control);
    if (control->porter != NULL) {
        amb_porter_refuse(control->porter); /* Clients that wait for a ring are told sooner. */
    }
    int64_t deadline_ns = control->now_ns + CONTROL_END_NS;
    while (!amb_list_is_empty(&control->clients) && control->now_ns < deadline_ns) {
        control_give_up_quarantine(control);
        control_round(control);
    }
    amb_queues_close(&control->directory);
}
