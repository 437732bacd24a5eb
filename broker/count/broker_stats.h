/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters of the control thread: the broker's block of the counters file. Each field has a row
 * in metrics.c.
 *
 * Threads: written by the control thread, those of HTTP by the observer, those of log lines under
 * the lock of log_lines.h; read by any, relaxed.
 * Memory: the counters', or embedded in a control thread without them.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

struct amb_broker_stats {
    _Atomic uint64_t accepted, refused_limit, refused_auth, refused_version, handshake_timeout;
    _Atomic uint64_t bad_magic, bad_message, bad_record, forbidden, expired, quarantined, attached,
        violations;
    _Atomic uint64_t events_failed; /* messages below $SYS that could not be published */
    _Atomic uint64_t passed, unknown_processes, longest_round_ns;
    /* As of the last tick of the control thread. */
    _Atomic uint64_t workers, clients, clients_limit, connecting, topics, topics_limit;
    _Atomic uint64_t subscriptions, subscriptions_limit, pairs, pairs_limit;
    _Atomic uint64_t memory_bytes, leased_bytes, memory_limit_bytes;
    _Atomic uint64_t gpu_pools;
    _Atomic uint64_t staged; /* messages, by their clients' word */
    _Atomic uint64_t tls_half_open, tls_handshakes, tls_failed, tls_plain, tls_timeouts;
    _Atomic uint64_t tls_evicted;
    _Atomic uint64_t audit_lines, audit_lost;
    _Atomic uint64_t draining;   /* 1: the graceful end has begun */
    _Atomic uint64_t came_users; /* 1: a reload has brought users */
    _Atomic uint64_t reloads, reloads_refused;
    /* Of HTTP. */
    _Atomic uint64_t http_connections, http_requests, http_refused, http_turned_away, http_stopped;
    /* Of log lines: log_lines.h. */
    _Atomic uint64_t log_errors, log_warnings, log_forgotten;
    _Atomic uint64_t http_streams, http_streams_ended;
    _Atomic uint64_t silent_ns; /* of the thread that has not turned for longest */
    /* Objects that have no slot. */
    _Atomic uint64_t unlisted_topics, unlisted_subscriptions, unlisted_queues, unlisted_clients;
};
