/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/count/metrics.h"

#include "broker/count/broker_stats.h"
#include "broker/count/figures.h"
#include "broker/count/shard_stats.h"
#include "wire/counters/exposition.h"

#include <string.h>

/* The place of a field of a struct. */
#define PLACE(type, field)                                                                         \
    .at = (uint32_t)(offsetof(type, field) / 8),                                                   \
    .words = (uint32_t)(sizeof(((type *)NULL)->field) / 8)
#define BROKER(field)                                                                              \
    .scope = AMB_COUNTERS_BROKER, .part = AMB_COUNTERS_IN_BLOCK, .labels = "",                     \
    PLACE(struct amb_broker_stats, field)
#define WORKER(field)                                                                              \
    .scope = AMB_COUNTERS_WORKER, .part = AMB_COUNTERS_IN_BLOCK, .labels = "worker",               \
    PLACE(struct amb_shard_stats, field)
#define NUMBER(object, label, type, field)                                                         \
    .scope = (object), .part = AMB_COUNTERS_IN_NUMBERS, .labels = label, PLACE(type, field)
#define WORD(object, label, type, field)                                                           \
    .scope = (object), .part = AMB_COUNTERS_IN_TEXTS, .labels = label, PLACE(type, field)
/* The text of that number among the slot's. */
#define TEXT_OF(object, label, number)                                                             \
    .scope = (object), .part = AMB_COUNTERS_IN_TEXTS, .labels = label, .at = (number), .words = 1
/* The object's id, which each slot has. */
#define ID_OF(object, label)                                                                       \
    .scope = (object), .part = AMB_COUNTERS_IN_TEXTS, .labels = label, .at = 0, .words = 1,        \
    .is_id = 1
#define TOPIC(field)                                                                               \
    NUMBER(AMB_COUNTERS_TOPIC, "topic", struct amb_topic_numbers, field), .is_summed = 1
#define TOPIC_WORD(field) WORD(AMB_COUNTERS_TOPIC, "topic", struct amb_topic_words, field)
#define TOPIC_TEXT(number) TEXT_OF(AMB_COUNTERS_TOPIC, "topic", number)
#define SUB(field)                                                                                 \
    NUMBER(AMB_COUNTERS_SUBSCRIPTION, "subscription", struct amb_subscription_numbers, field)
#define SUB_WORD(field)                                                                            \
    WORD(AMB_COUNTERS_SUBSCRIPTION, "subscription", struct amb_subscription_words, field)
#define SUB_TEXT(number) TEXT_OF(AMB_COUNTERS_SUBSCRIPTION, "subscription", number)
#define SUB_ID(field) ID_OF(AMB_COUNTERS_SUBSCRIPTION, "subscription")
#define QUEUE(field) NUMBER(AMB_COUNTERS_QUEUE, "queue", struct amb_queue_numbers, field)
#define QUEUE_WORD(field) WORD(AMB_COUNTERS_QUEUE, "queue", struct amb_queue_words, field)
#define QUEUE_TEXT(number) TEXT_OF(AMB_COUNTERS_QUEUE, "queue", number)
#define QUEUE_ID(field) ID_OF(AMB_COUNTERS_QUEUE, "queue")
#define CLIENT(field) NUMBER(AMB_COUNTERS_CLIENT, "client", struct amb_client_numbers, field)
#define CLIENT_WORD(field) WORD(AMB_COUNTERS_CLIENT, "client", struct amb_client_words, field)
#define CLIENT_TEXT(number) TEXT_OF(AMB_COUNTERS_CLIENT, "client", number)
#define CLIENT_ID(field) ID_OF(AMB_COUNTERS_CLIENT, "client")
#define ROW(what, series, view_column, unit_name, sentence)                                        \
    .kind = AMB_COUNTERS_##what, .name = series, .column = view_column, .unit = unit_name,         \
    .help = sentence

const struct amb_counters_metric amb_metrics[] = {
    {BROKER(workers), ROW(GAUGE, "ambroker_workers", "workers", "", "Worker threads.")},
    {BROKER(clients),
     ROW(GAUGE, "ambroker_clients", "clients", "", "Sessions, those in quarantine too.")},
    {BROKER(clients_limit), ROW(GAUGE, "ambroker_clients_limit", "clients_limit", "",
                                "server.max_connections, as the limit of descriptors allows it.")},
    {BROKER(connecting), ROW(GAUGE, "ambroker_clients_connecting", "connecting", "",
                             "Connections that have no session yet.")},
    {BROKER(topics), ROW(GAUGE, "ambroker_topics", "topics", "", "Topics.")},
    {BROKER(topics_limit),
     ROW(GAUGE, "ambroker_topics_limit", "topics_limit", "", "limits.max_topics.")},
    {BROKER(subscriptions), ROW(GAUGE, "ambroker_subscriptions", "subscriptions", "",
                                "Subscriptions, members of queues among them.")},
    {BROKER(subscriptions_limit), ROW(GAUGE, "ambroker_subscriptions_limit", "subscriptions_limit",
                                      "", "limits.max_subscriptions.")},
    {BROKER(pairs),
     ROW(GAUGE, "ambroker_pairs", "pairs", "",
         "Pairs of a subscription with a wildcard and an awake topic that it reads.")},
    {BROKER(pairs_limit),
     ROW(GAUGE, "ambroker_pairs_limit", "pairs_limit", "", "limits.max_pairs.")},
    {BROKER(memory_bytes), ROW(GAUGE, "ambroker_memory_bytes", "memory_bytes", "bytes",
                               "Memory for messages that segments have.")},
    {BROKER(leased_bytes), ROW(GAUGE, "ambroker_memory_leased_bytes", "leased_bytes", "bytes",
                               "Of memory_bytes, that clients write in place.")},
    {BROKER(memory_limit_bytes),
     ROW(GAUGE, "ambroker_memory_limit_bytes", "memory_limit_bytes", "bytes", "memory.host.size.")},
    {BROKER(expired), ROW(COUNTER, "ambroker_clients_expired_total", "expired", "",
                          "Clients that were silent for longer than limits.peer_timeout.")},
    {BROKER(accepted), ROW(COUNTER, "ambroker_connections_accepted_total", "accepted", "",
                           "Connections that the door has accepted.")},
    {BROKER(refused_limit),
     ROW(COUNTER, "ambroker_connections_refused_limit_total", "refused_limit", "",
         "Connections and clients that were refused because of a limit.")},
    {BROKER(refused_auth), ROW(COUNTER, "ambroker_connections_refused_auth_total", "refused_auth",
                               "", "Clients that did not prove who they are.")},
    {BROKER(refused_version),
     ROW(COUNTER, "ambroker_connections_refused_version_total", "refused_version", "",
         "Clients of a protocol that this broker does not speak.")},
    {BROKER(handshake_timeout),
     ROW(COUNTER, "ambroker_handshake_timeouts_total", "handshake_timeouts", "",
         "Connections that did not introduce themselves in server.handshake_timeout.")},
    {BROKER(bad_magic), ROW(COUNTER, "ambroker_connections_bad_magic_total", "bad_magic", "",
                            "Connections whose first bytes are of another protocol.")},
    {BROKER(bad_message), ROW(COUNTER, "ambroker_control_messages_bad_total", "bad_messages", "",
                              "Control messages that cannot be decoded.")},
    {BROKER(bad_record), ROW(COUNTER, "ambroker_tls_records_bad_total", "bad_records", "",
                             "Connections that were ended because a record of TLS is wrong.")},
    {BROKER(forbidden), ROW(COUNTER, "ambroker_requests_forbidden_total", "forbidden", "",
                            "Requests that the client has no right to.")},
    {BROKER(quarantined), ROW(COUNTER, "ambroker_clients_quarantined_total", "quarantined", "",
                              "Clients that have gone while their process could still read or "
                              "write messages in place.")},
    {BROKER(violations), ROW(COUNTER, "ambroker_violations_total", "violations", "",
                             "Sessions that were ended because their client broke a rule.")},
    {BROKER(passed),
     ROW(COUNTER, "ambroker_descriptors_passed_total", "passed_descriptors", "",
         "Connections that were ended because descriptors came that nobody asked for.")},
    {BROKER(unknown_processes),
     ROW(COUNTER, "ambroker_processes_unknown_total", "unknown_processes", "",
         "Local clients whose process could not be told.")},
    {BROKER(longest_round_ns),
     ROW(GAUGE, "ambroker_control_round_longest_seconds", "longest_round_ns", "ns",
         "The longest round of the control thread so far.")},
    {BROKER(attached), ROW(COUNTER, "ambroker_links_attached_total", "", "",
                           "Connections that became the link of a client's session.")},
    {BROKER(events_failed), ROW(COUNTER, "ambroker_events_failed_total", "", "",
                                "Messages below $SYS that could not be published.")},
    {BROKER(tls_half_open), ROW(GAUGE, "ambroker_tls_half_open", "tls_half_open", "",
                                "Connections in a handshake of TLS.")},
    {BROKER(tls_handshakes), ROW(COUNTER, "ambroker_tls_handshakes_total", "tls_handshakes", "",
                                 "Handshakes of TLS that are done.")},
    {BROKER(tls_failed),
     ROW(COUNTER, "ambroker_tls_failed_total", "tls_failed", "", "Handshakes of TLS that failed.")},
    {BROKER(tls_plain),
     ROW(COUNTER, "ambroker_tls_plain_total", "tls_plain", "",
         "Connections that did not begin a handshake on an encrypted listener.")},
    {BROKER(tls_timeouts),
     ROW(COUNTER, "ambroker_tls_timeouts_total", "tls_timeouts", "",
         "Handshakes of TLS that took longer than server.handshake_timeout.")},
    {BROKER(tls_evicted),
     ROW(COUNTER, "ambroker_tls_evicted_total", "tls_evicted", "",
         "Handshakes of TLS that ended because one address had too many of them.")},
    {BROKER(audit_lines), ROW(COUNTER, "ambroker_audit_lines_total", "audit_lines", "",
                              "Lines that the audit log has taken.")},
    {BROKER(audit_lost), ROW(COUNTER, "ambroker_audit_lost_total", "audit_lost", "",
                             "Entries that the audit log could not take.")},
    {BROKER(draining),
     ROW(GAUGE, "ambroker_draining", "draining", "", "1 once the graceful end has begun, else 0.")},
    {BROKER(reloads), ROW(COUNTER, "ambroker_config_reloads_total", "", "",
                          "Configurations that were taken over while it runs.")},
    {BROKER(reloads_refused), ROW(COUNTER, "ambroker_config_reloads_refused_total", "", "",
                                  "Configurations that were refused; nothing has changed then.")},
    {BROKER(silent_ns),
     ROW(GAUGE, "ambroker_thread_silence_seconds", "", "ns",
         "How long the control thread or a worker has not turned, although it was asked to.")},
    {BROKER(http_connections),
     ROW(GAUGE, "ambroker_http_connections", "", "", "Connections of HTTP.")},
    {BROKER(http_requests), ROW(COUNTER, "ambroker_http_requests_total", "", "",
                                "Requests of HTTP that were understood.")},
    {BROKER(http_refused), ROW(COUNTER, "ambroker_http_requests_refused_total", "", "",
                               "Of these, answered with a status of 400 or more.")},
    {BROKER(http_turned_away), ROW(COUNTER, "ambroker_http_turned_away_total", "", "",
                                   "Connections of HTTP that were too many.")},
    {BROKER(http_stopped), ROW(COUNTER, "ambroker_http_stopped_total", "", "",
                               "Connections of HTTP that were closed as they made no progress.")},
    {BROKER(unlisted_topics), ROW(GAUGE, "ambroker_counters_unlisted_topics", "unlisted_topics", "",
                                  "Topics that have no slot of server.counters_objects.")},
    {BROKER(unlisted_subscriptions),
     ROW(GAUGE, "ambroker_counters_unlisted_subscriptions", "unlisted_subscriptions", "",
         "Subscriptions that have no slot of server.counters_objects.")},
    {BROKER(unlisted_queues), ROW(GAUGE, "ambroker_counters_unlisted_queues", "unlisted_queues", "",
                                  "Queues that have no slot of server.counters_objects.")},
    {BROKER(unlisted_clients), ROW(GAUGE, "ambroker_counters_unlisted_clients", "unlisted_clients",
                                   "", "Clients that have no slot of server.counters_objects.")},
    {WORKER(worker), ROW(ID, "ambroker_worker", "worker", "", "Its number.")},
    {WORKER(turns),
     ROW(COUNTER, "ambroker_worker_turns_total", "turns", "", "Turns of the worker.")},
    {WORKER(sleeps),
     ROW(COUNTER, "ambroker_worker_sleeps_total", "sleeps", "", "Times that it went to sleep.")},
    {WORKER(msgs_in), ROW(COUNTER, "ambroker_messages_in_total", "messages_in", "messages",
                          "Messages that have come.")},
    {WORKER(bytes_in), ROW(COUNTER, "ambroker_bytes_in_total", "bytes_in", "bytes",
                           "Bytes of payload that have come.")},
    {WORKER(batches_in),
     ROW(COUNTER, "ambroker_batches_in_total", "batches_in", "batches", "Batches that have come.")},
    {WORKER(msgs_out), ROW(COUNTER, "ambroker_messages_out_total", "messages_out", "messages",
                           "Messages that readers were given, each time.")},
    {WORKER(bytes_out), ROW(COUNTER, "ambroker_bytes_out_total", "bytes_out", "bytes",
                            "Bytes of payload that readers were given.")},
    {WORKER(batches_out), ROW(COUNTER, "ambroker_batches_out_total", "", "batches",
                              "Batches, or parts of them, that readers were given.")},
    {WORKER(maps), ROW(COUNTER, "ambroker_deliveries_in_place_total", "maps", "batches",
                       "Batches that went out in place.")},
    {WORKER(copies), ROW(COUNTER, "ambroker_deliveries_by_copy_total", "copies", "batches",
                         "Batches that went out by copy.")},
    {WORKER(msgs_dropped),
     ROW(COUNTER, "ambroker_messages_dropped_total", "dropped", "messages",
         "Messages that went by a policy or for want of room, before all had read them; "
         "each once a worker.")},
    {WORKER(lost_slow), ROW(COUNTER, "ambroker_messages_lost_slow_total", "lost_slow", "messages",
                            "Messages that a subscription does not get as it was slow; for each.")},
    {WORKER(lost_trimmed),
     ROW(COUNTER, "ambroker_messages_lost_trimmed_total", "lost_trimmed", "messages",
         "Messages that a subscription does not get as the topic was full; for each.")},
    {WORKER(lost_expired),
     ROW(COUNTER, "ambroker_messages_lost_expired_total", "lost_expired", "messages",
         "Messages that a subscription does not get as they had expired; for each.")},
    {WORKER(msgs_rejected), ROW(COUNTER, "ambroker_messages_rejected_total", "rejected", "messages",
                                "Messages that were refused, and their publisher told.")},
    {WORKER(commits_in), ROW(COUNTER, "ambroker_commits_total", "commits", "batches",
                             "Batches that came in slots of a lease.")},
    {WORKER(fetches), ROW(COUNTER, "ambroker_fetches_total", "fetches", "",
                          "Payloads that lazy subscriptions have asked for.")},
    {WORKER(fetched_bytes),
     ROW(COUNTER, "ambroker_fetched_bytes_total", "fetched_bytes", "bytes", "Bytes of these.")},
    {WORKER(fetches_stale), ROW(COUNTER, "ambroker_fetches_stale_total", "fetches_stale", "",
                                "Such requests for a payload that was not there any more.")},
    {WORKER(commits_refused),
     ROW(COUNTER, "ambroker_commits_refused_total", "commits_refused", "batches",
         "Batches in slots that broke a rule; their session ends.")},
    {WORKER(leases_refused), ROW(COUNTER, "ambroker_leases_refused_total", "leases_refused", "",
                                 "Requests for a lease that limits or memory did not allow.")},
    {WORKER(longest_turn_ns), ROW(GAUGE, "ambroker_worker_turn_longest_seconds", "longest_turn_ns",
                                  "ns", "The longest turn so far.")},
    {WORKER(recent_turns), ROW(RECENT, "ambroker_worker_turn_recent_seconds", "longest_turn_10s_ns",
                               "ns", "The longest turn of the last ten seconds.")},
    {WORKER(frames_foreign), ROW(GAUGE, "ambroker_frames_foreign", "foreign_frames", "frames",
                                 "Frames of no session of this worker's UCX port.")},
    {WORKER(spilled),
     ROW(COUNTER, "ambroker_messages_spilled_total", "spilled", "messages",
         "Messages that were moved out of a lease or a GPU for readers that spill.")},
    {WORKER(spilled_bytes),
     ROW(COUNTER, "ambroker_bytes_spilled_total", "spilled_bytes", "bytes", "Bytes of these.")},
    {WORKER(mails),
     ROW(COUNTER, "ambroker_worker_mails_total", "mails", "", "Mails of other threads.")},
    {WORKER(bells),
     ROW(COUNTER, "ambroker_worker_bells_total", "bells", "", "Sleeps that ended with a mail.")},
    {WORKER(processor),
     ROW(ID, "ambroker_worker_processor", "processor", "", "The processor that it is bound to.")},
    {WORKER(granted_refused),
     ROW(COUNTER, "ambroker_batches_refused_memory_total", "", "batches",
         "Batches within their publisher's window for which there was no memory.")},
    {WORKER(prepared_lapsed),
     ROW(COUNTER, "ambroker_buffers_lapsed_total", "", "",
         "Buffers that were prepared for a publisher, and not used in time.")},
    {WORKER(unreserved_refused),
     ROW(COUNTER, "ambroker_batches_refused_unreserved_total", "", "batches",
         "Batches for which there was no memory, and none was reserved any more.")},
    {WORKER(frames_ignored), ROW(COUNTER, "ambroker_frames_ignored_total", "", "frames",
                                 "Frames that named nothing that is open.")},
    {WORKER(quarantined_bytes),
     ROW(GAUGE, "ambroker_memory_quarantined_bytes", "", "bytes",
         "Bytes that processes of sessions which have gone may still read.")},
    {WORKER(sparse_slabs), ROW(GAUGE, "ambroker_memory_sparse_slabs", "", "",
                               "Slabs that are nearly empty, as of the last look.")},
    {WORKER(compacted), ROW(COUNTER, "ambroker_batches_compacted_total", "", "batches",
                            "Batches that were moved out of such slabs.")},
    {WORKER(compacted_bytes),
     ROW(COUNTER, "ambroker_bytes_compacted_total", "", "bytes", "Bytes of these.")},
    {WORKER(twins), ROW(COUNTER, "ambroker_gpu_copies_total", "", "batches",
                        "Batches in GPU memory of which a copy in host memory was made.")},
    {WORKER(twins_failed), ROW(COUNTER, "ambroker_gpu_copies_failed_total", "", "batches",
                               "Such copies that could not be made.")},
    {WORKER(msgs_redelivered), ROW(COUNTER, "ambroker_messages_redelivered_total", "", "messages",
                                   "Messages that a queue gave out again.")},
    {WORKER(msgs_dead), ROW(COUNTER, "ambroker_messages_dead_total", "", "messages",
                            "Messages that a queue has given up.")},
    {WORKER(msgs_dead_lost), ROW(COUNTER, "ambroker_messages_dead_lost_total", "", "messages",
                                 "Of these, not even kept as dead letters.")},
    {WORKER(unlisted), ROW(GAUGE, "ambroker_worker_counters_unlisted", "unlisted", "",
                           "Objects of this worker that have no slot (server.counters_objects).")},
    {WORKER(delay), ROW(HISTOGRAM, "ambroker_delivery_delay_seconds", "", "ns",
                        "Batches by the time from their arrival until a reader was given them, as "
                        "turns of the worker see it.")},
    {WORKER(delay_sum_ns),
     ROW(COUNTER, "ambroker_delivery_delay_sum_seconds", "", "ns", "The sum of these times.")},
    {TOPIC_TEXT(0), ROW(TEXT, "ambroker_topic", "topic", "", "Its name.")},
    {TOPIC_TEXT(1), ROW(TEXT, "ambroker_topic_priority", "priority", "", "Its priority.")},
    {TOPIC_TEXT(2), ROW(TEXT, "ambroker_topic_tenant", "tenant", "", "Its tenant.")},
    {TOPIC_WORD(tenant),
     ROW(ID, "ambroker_topic_tenant_number", "", "", "The number of its tenant.")},
    {TOPIC_WORD(worker),
     ROW(ID, "ambroker_topic_worker", "worker", "", "The worker that is its home.")},
    {TOPIC(subscriptions), ROW(GAUGE, "ambroker_topic_subscriptions", "subscriptions", "",
                               "Subscriptions that match it.")},
    {TOPIC(messages), ROW(COUNTER, "ambroker_topic_messages_total", "messages", "messages",
                          "Messages that it has taken.")},
    {TOPIC(bytes),
     ROW(COUNTER, "ambroker_topic_bytes_total", "bytes", "bytes", "Bytes of payload of these.")},
    {TOPIC(log_messages), ROW(GAUGE, "ambroker_topic_log_messages", "log_messages", "messages",
                              "Messages that its log holds.")},
    {TOPIC(log_bytes),
     ROW(GAUGE, "ambroker_topic_log_bytes", "log_bytes", "bytes", "Bytes that its log holds.")},
    {TOPIC(last_seq), ROW(GAUGE, "ambroker_topic_last_sequence", "last_seq", "",
                          "The number of its newest message.")},
    {TOPIC(rejected), ROW(COUNTER, "ambroker_topic_messages_rejected_total", "rejected", "messages",
                          "Messages that it has refused.")},
    {TOPIC(dropped),
     ROW(COUNTER, "ambroker_topic_messages_dropped_total", "dropped", "messages",
         "Messages that went before all had read them, by a policy or as it was full; "
         "each once a worker.")},
    {TOPIC(spilled), ROW(COUNTER, "ambroker_topic_messages_spilled_total", "spilled", "messages",
                         "Messages that were moved for readers that spill.")},
    {TOPIC(spilled_bytes), ROW(COUNTER, "ambroker_topic_bytes_spilled_total", "spilled_bytes",
                               "bytes", "Bytes of these.")},
    {TOPIC(spill_failed),
     ROW(COUNTER, "ambroker_topic_spill_failed_total", "spill_failed", "messages",
         "Messages that could not be moved, and stay where they lie.")},
    {TOPIC(spill_dropped), ROW(COUNTER, "ambroker_topic_spill_dropped_total", "spill_dropped",
                               "messages", "Messages that were more than spill_max.")},
    {TOPIC(spill_kept_bytes), ROW(GAUGE, "ambroker_topic_spill_kept_bytes", "spill_kept_bytes",
                                  "bytes", "Bytes that wait for such readers alone.")},
    {SUB_TEXT(0), ROW(TEXT, "ambroker_subscription_pattern", "pattern", "", "Its pattern.")},
    {SUB_TEXT(1), ROW(TEXT, "ambroker_subscription_tenant", "tenant", "", "Its tenant.")},
    {SUB_WORD(tenant),
     ROW(ID, "ambroker_subscription_tenant_number", "", "", "The number of its tenant.")},
    {SUB_WORD(client), ROW(ID, "ambroker_subscription_client", "client", "", "Its client.")},
    {SUB_WORD(worker), ROW(ID, "ambroker_subscription_worker", "worker", "", "Its worker.")},
    {SUB_WORD(narrowed), ROW(FLAG, "ambroker_subscription_narrowed", "narrowed", "",
                             "Roles of its user deny some topics of the pattern.")},
    {SUB_ID(id), ROW(ID, "ambroker_subscription", "id", "", "Its number.")},
    {SUB(nearness), ROW(TEXT, "ambroker_subscription_nearness", "nearness", "",
                        "What it costs to bring a payload to it.")},
    {SUB(delivered), ROW(COUNTER, "ambroker_subscription_messages_total", "delivered", "messages",
                         "Messages that it was given.")},
    {SUB(bytes), ROW(COUNTER, "ambroker_subscription_bytes_total", "bytes", "bytes",
                     "Bytes of payload of these.")},
    {SUB(lost), ROW(COUNTER, "ambroker_subscription_messages_lost_total", "lost", "messages",
                    "Messages that it did not get.")},
    {SUB(lost_slow), ROW(COUNTER, "ambroker_subscription_lost_slow_total", "lost_slow", "messages",
                         "Of these, because it was slow.")},
    {SUB(lost_trimmed), ROW(COUNTER, "ambroker_subscription_lost_trimmed_total", "lost_trimmed",
                            "messages", "Of these, because the topic was full.")},
    {SUB(lost_expired), ROW(COUNTER, "ambroker_subscription_lost_expired_total", "lost_expired",
                            "messages", "Of these, because their time was over.")},
    {SUB(outstanding), ROW(GAUGE, "ambroker_subscription_outstanding_messages", "outstanding",
                           "messages", "Messages that it has and has not given back.")},
    {SUB(outstanding_bytes), ROW(GAUGE, "ambroker_subscription_outstanding_bytes",
                                 "outstanding_bytes", "bytes", "Bytes of these.")},
    {SUB(credit_bytes), ROW(GAUGE, "ambroker_subscription_credit_limit_bytes", "credit_bytes",
                            "bytes", "Bytes that may be outstanding.")},
    {SUB(pending_bytes), ROW(GAUGE, "ambroker_subscription_pending_bytes", "pending_bytes", "bytes",
                             "Bytes in the logs that wait for it.")},
    {SUB(spilled), ROW(COUNTER, "ambroker_subscription_messages_spilled_total", "spilled",
                       "messages", "Messages that were moved while they waited for it.")},
    {SUB(spilled_waiting_bytes),
     ROW(GAUGE, "ambroker_subscription_spilled_bytes", "spilled_waiting_bytes", "bytes",
         "Bytes that wait for it because it spills.")},
    {SUB(gpu_delivered), ROW(COUNTER, "ambroker_subscription_gpu_messages_total", "gpu_delivered",
                             "messages", "Messages that it was given from GPU memory.")},
    {SUB(gpu_bytes), ROW(COUNTER, "ambroker_subscription_gpu_bytes_total", "gpu_bytes", "bytes",
                         "Bytes of these.")},
    {SUB(held_host_bytes), ROW(GAUGE, "ambroker_subscription_held_host_bytes", "held_host_bytes",
                               "bytes", "Bytes in host memory that it holds in place.")},
    {SUB(held_gpu_bytes), ROW(GAUGE, "ambroker_subscription_held_gpu_bytes", "held_gpu_bytes",
                              "bytes", "Bytes in GPU memory that it holds in place.")},
    {SUB(pending_gpu_bytes),
     ROW(GAUGE, "ambroker_subscription_pending_gpu_bytes", "pending_gpu_bytes", "bytes",
         "Of pending_bytes, those in GPU memory, as far as they were looked at.")},
    {SUB(redelivered),
     ROW(COUNTER, "ambroker_subscription_messages_redelivered_total", "redelivered", "messages",
         "Messages that a queue gave it, and that had been given out before.")},
    {SUB(acked), ROW(COUNTER, "ambroker_subscription_acknowledged_total", "acked", "messages",
                     "Messages that it has acknowledged to a queue.")},
    {SUB(naked), ROW(COUNTER, "ambroker_subscription_refused_total", "naked", "messages",
                     "Messages that it has asked for once more.")},
    {SUB(termed), ROW(COUNTER, "ambroker_subscription_terminated_total", "termed", "messages",
                      "Messages that it has given up for good.")},
    {SUB(ack_expired), ROW(COUNTER, "ambroker_subscription_ack_expired_total", "ack_expired",
                           "messages", "Messages that it did not acknowledge in time.")},
    {SUB(ack_late), ROW(COUNTER, "ambroker_subscription_ack_late_total", "ack_late", "messages",
                        "Acknowledgements of messages that it had not any more.")},
    {SUB(pending_topics), ROW(ID, "ambroker_subscription_pending_topics", "pending_topics", "",
                              "How many topics pending_bytes is of, where it is not of all.")},
    {QUEUE_TEXT(0), ROW(TEXT, "ambroker_queue_pattern", "pattern", "", "Its pattern.")},
    {QUEUE_TEXT(1), ROW(TEXT, "ambroker_queue_tenant", "tenant", "", "Its tenant.")},
    {QUEUE_WORD(tenant),
     ROW(ID, "ambroker_queue_tenant_number", "", "", "The number of its tenant.")},
    {QUEUE_TEXT(3), ROW(TEXT, "ambroker_queue_group", "group", "", "Its group.")},
    {QUEUE_TEXT(2), ROW(TEXT, "ambroker_queue_durable", "durable", "", "Its durable name.")},
    {QUEUE_TEXT(5), ROW(TEXT, "ambroker_queue_user", "user", "", "The owner of the names.")},
    {QUEUE_TEXT(4), ROW(TEXT, "ambroker_queue_ack", "ack", "", "How its members acknowledge.")},
    {QUEUE_WORD(worker), ROW(ID, "ambroker_queue_worker", "worker", "", "Its worker.")},
    {QUEUE_WORD(members), ROW(GAUGE, "ambroker_queue_members", "members", "", "Its members.")},
    {QUEUE_ID(id), ROW(ID, "ambroker_queue", "id", "", "Its number.")},
    {QUEUE(delivered), ROW(COUNTER, "ambroker_queue_messages_total", "delivered", "messages",
                           "Messages that it has given to members.")},
    {QUEUE(delivered_remote),
     ROW(COUNTER, "ambroker_queue_messages_remote_total", "delivered_remote", "messages",
         "Of these, to members on other hosts.")},
    {QUEUE(pending), ROW(GAUGE, "ambroker_queue_pending_messages", "pending", "messages",
                         "Messages that are delivered and not acknowledged.")},
    {QUEUE(pending_limit), ROW(GAUGE, "ambroker_queue_pending_limit_messages", "pending_limit",
                               "messages", "How many these may be.")},
    {QUEUE(to_redeliver), ROW(GAUGE, "ambroker_queue_to_redeliver_messages", "to_redeliver",
                              "messages", "Messages that wait to be given out again.")},
    {QUEUE(redelivered), ROW(COUNTER, "ambroker_queue_messages_redelivered_total", "redelivered",
                             "messages", "Messages that were given out again.")},
    {QUEUE(dead), ROW(COUNTER, "ambroker_queue_messages_dead_total", "dead", "messages",
                      "Messages that it has given up.")},
    {QUEUE(lost), ROW(COUNTER, "ambroker_queue_messages_lost_total", "lost", "messages",
                      "Messages that went before a member had them.")},
    {QUEUE(waiting_bytes), ROW(GAUGE, "ambroker_queue_waiting_bytes", "waiting_bytes", "bytes",
                               "Bytes in the logs that wait for it.")},
    {QUEUE(pending_topics), ROW(ID, "ambroker_queue_pending_topics", "pending_topics", "",
                                "How many topics waiting_bytes is of, where it is not of all.")},
    {CLIENT_ID(id), ROW(ID, "ambroker_client", "id", "", "Its number.")},
    {CLIENT_TEXT(0), ROW(TEXT, "ambroker_client_name", "name", "", "Its name, by its own word.")},
    {CLIENT_TEXT(1), ROW(TEXT, "ambroker_client_state", "state", "", "Where it is in its life.")},
    {CLIENT_TEXT(2), ROW(TEXT, "ambroker_client_link", "link", "", "The link of its session.")},
    {CLIENT(lanes), ROW(TEXT, "ambroker_client_lanes", "lanes", "", "The lanes of that link.")},
    {CLIENT_TEXT(3),
     ROW(TEXT, "ambroker_client_address", "address", "", "Where it has come from.")},
    {CLIENT_WORD(pid), ROW(ID, "ambroker_client_pid", "pid", "", "Its process.")},
    {CLIENT_WORD(uid), ROW(ID, "ambroker_client_uid", "uid", "", "The user of its process.")},
    {CLIENT_WORD(worker),
     ROW(ID, "ambroker_client_worker", "worker", "", "The worker of its session.")},
    {CLIENT_TEXT(4), ROW(TEXT, "ambroker_client_user", "user", "", "Its user.")},
    {CLIENT_TEXT(5), ROW(TEXT, "ambroker_client_tenant", "tenant", "", "Its user's tenant.")},
    {CLIENT_WORD(tenant),
     ROW(ID, "ambroker_client_tenant_number", "", "", "The number of its tenant.")},
    {CLIENT_TEXT(6),
     ROW(TEXT, "ambroker_client_mechanism", "mechanism", "", "How it proved that.")},
    {CLIENT_TEXT(7),
     ROW(TEXT, "ambroker_client_suite", "suite", "", "The cipher suite of its connection.")},
    {CLIENT_TEXT(8),
     ROW(TEXT, "ambroker_client_protocol", "protocol", "", "The protocol of that.")},
    {CLIENT_TEXT(9), ROW(TEXT, "ambroker_client_maps", "maps", "",
                         "Trust groups whose memory it may map; +N: so many more.")},
    {CLIENT_WORD(pairs), ROW(GAUGE, "ambroker_client_pairs", "pairs", "",
                             "Pairs of its subscriptions with a wildcard.")},
    {CLIENT_WORD(quarantined_bytes),
     ROW(GAUGE, "ambroker_client_quarantined_bytes", "quarantined_bytes", "bytes",
         "Bytes that its process may still read.")},
    {CLIENT_WORD(heap_bytes), ROW(GAUGE, "ambroker_client_heap_control_bytes", "heap_bytes",
                                  "bytes", "Heap that the control thread uses for it.")},
    {CLIENT_WORD(heap_peak_bytes), ROW(GAUGE, "ambroker_client_heap_control_peak_bytes",
                                       "heap_peak_bytes", "bytes", "The most of that so far.")},
    {CLIENT_WORD(heap_limit_bytes), ROW(GAUGE, "ambroker_client_heap_control_limit_bytes",
                                        "heap_limit_bytes", "bytes", "How much that may be.")},
    {CLIENT_WORD(heap_refused),
     ROW(COUNTER, "ambroker_client_heap_control_refused_total", "heap_refused", "",
         "Times that something was refused for that limit.")},
    {CLIENT(messages_in), ROW(COUNTER, "ambroker_client_messages_in_total", "messages_in",
                              "messages", "Messages that it has published.")},
    {CLIENT(bytes_in), ROW(COUNTER, "ambroker_client_bytes_in_total", "bytes_in", "bytes",
                           "Bytes of payload of these.")},
    {CLIENT(messages_out), ROW(COUNTER, "ambroker_client_messages_out_total", "messages_out",
                               "messages", "Messages that it was given.")},
    {CLIENT(bytes_out), ROW(COUNTER, "ambroker_client_bytes_out_total", "bytes_out", "bytes",
                            "Bytes of payload of these.")},
    {CLIENT(mapped_bytes), ROW(GAUGE, "ambroker_client_mapped_bytes", "mapped_bytes", "bytes",
                               "Bytes that it holds in place.")},
    {CLIENT(mapped_limit_bytes), ROW(GAUGE, "ambroker_client_mapped_limit_bytes",
                                     "mapped_limit_bytes", "bytes", "How many these may be.")},
    {CLIENT(leased_bytes),
     ROW(GAUGE, "ambroker_client_leased_bytes", "leased_bytes", "bytes", "Bytes of its leases.")},
    {CLIENT(commits), ROW(COUNTER, "ambroker_client_commits_total", "commits", "batches",
                          "Batches that it has published in slots.")},
    {CLIENT(queued_frames), ROW(GAUGE, "ambroker_client_queued_frames", "queued_frames", "frames",
                                "Frames that wait in its link.")},
    {CLIENT(ignored_frames), ROW(COUNTER, "ambroker_client_ignored_frames_total", "ignored_frames",
                                 "frames", "Its frames that named nothing that is open.")},
    {CLIENT(heap_bytes), ROW(GAUGE, "ambroker_client_heap_bytes", "heap_bytes", "bytes",
                             "Heap that its worker uses for it.")},
    {CLIENT(heap_peak_bytes), ROW(GAUGE, "ambroker_client_heap_peak_bytes", "heap_peak_bytes",
                                  "bytes", "The most of that so far.")},
    {CLIENT(heap_limit_bytes), ROW(GAUGE, "ambroker_client_heap_limit_bytes", "heap_limit_bytes",
                                   "bytes", "How much that may be.")},
    {CLIENT(heap_refused), ROW(COUNTER, "ambroker_client_heap_refused_total", "heap_refused", "",
                               "Times that something was refused for that limit.")},
};

const size_t amb_metric_count = sizeof(amb_metrics) / sizeof(amb_metrics[0]);

_Static_assert(sizeof(amb_metrics) / sizeof(amb_metrics[0]) <= AMB_COUNTERS_METRICS_MAX,
               "a reader takes so many");

const char *amb_metric_scope_name(enum amb_counters_scope scope)
{
    static const char *const names[] = {"",      "broker", "worker", "topic", "subscription",
                                        "queue", "client"};
    return names[scope];
}

const char *amb_metric_kind_name(enum amb_counters_kind kind)
{
    static const char *const names[] = {
        "", "counter", "gauge", "histogram", "largest of the last 10 s", "text", "flag", "number"};
    return names[kind];
}

void amb_metrics_reference(FILE *out)
{
    static const char *const titles[] = {
        "", "The broker", "A worker", "A topic", "A subscription", "A queue", "A client"};
    (void)fprintf(
        out, "# Metrics\n\n"
             "Made from the table in `broker/count/metrics.c` (`broker-metrics-docs`); edit that, "
             "not this page.\n\n"
             "Each figure that the broker counts, with the column of `broker-ctl` that shows it "
             "and the counter that it comes from.\nCounters only grow while the broker lives; a "
             "gauge is the value of a moment. "
             "[monitoring.md](monitoring.md) says\nhow to read them.\n");
    for (int scope = AMB_COUNTERS_BROKER; scope <= AMB_COUNTERS_CLIENT; scope++) {
        (void)fprintf(
            out, "\n## %s\n\n| metric | column | kind | unit | what |\n|---|---|---|---|---|\n",
            titles[scope]);
        for (size_t i = 0; i < AMB_EXPOSITION_EXTRAS && scope == AMB_COUNTERS_BROKER; i++) {
            (void)fprintf(out, "| `%s` |  | %s | %s | %s |\n", amb_exposition_extras[i].name,
                          amb_exposition_extras[i].is_info ? "info" : "gauge",
                          amb_exposition_extras[i].is_info ? "" : "seconds",
                          amb_exposition_extras[i].help);
        }
        for (size_t i = 0; i < amb_metric_count; i++) {
            const struct amb_counters_metric *m = &amb_metrics[i];
            if (m->scope == scope) {
                (void)fprintf(
                    out, "| `%s` | %s%s%s | %s | %s | %s |\n", m->name,
                    m->column[0] == '\0' ? "" : "`", m->column, m->column[0] == '\0' ? "" : "`",
                    amb_metric_kind_name((enum amb_counters_kind)m->kind), m->unit, m->help);
            }
        }
    }
}
