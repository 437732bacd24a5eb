/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread: the front door, clients' control connections, the directory, timers.
 * It knows every client and never sees a message.
 *
 *   listeners ─► clients ─► requests ─► directory, orders to workers
 *
 * Threads: the control thread, but for the inbox, which anybody may post to.
 */
#pragma once

#include "broker/base/mail.h"
#include "broker/base/party.h"
#include "broker/base/tenant.h"
#include "broker/control/clients/blocklist.h"
#include "broker/control/clients/client_closed.h"
#include "broker/control/clients/expiry.h"
#include "broker/control/clients/failures.h"
#include "broker/control/clients/half_open.h"
#include "broker/control/clients/hooks.h"
#include "broker/control/clients/left_maps.h"
#include "broker/control/clients/watch.h"
#include "broker/control/directory/directory.h"
#include "broker/control/directory/identity.h"
#include "broker/count/broker_stats.h"
#include "broker/count/shard_stats.h"
#include "broker/rights/rights_table.h"
#include "wire/base/idmap.h"
#include "wire/base/list.h"
#include "wire/codec/url.h"
#include "wire/tls/tls_rate.h"

#include <net/if.h>
#include <stdatomic.h>
#include <sys/socket.h>

#define AMB_LISTENERS_MAX 64u /* as many doors as a configuration has */
/* A descriptor that was passed in place of a pidfd is not closed: a file's server could hold that
 * up for ever. Where there are so many, no client is asked for a pidfd any more. */
#define AMB_KEPT_FDS_MAX 64u
/* Signatures that handshakers check. A client that leaves meanwhile stays in memory until then, and
 * counts as half open no more. Where there are so many, the door pauses. */
#define AMB_PROOFS_MAX 512u
/* Sessions that the porter and the workers make. Where there are so many, the door pauses: they
 * have no deadline, for it is the broker that they wait for. */
#define AMB_OPENING_MAX 512u
#define AMB_CONTROL_NETWORKS 4u /* addresses of ours whose interface is remembered */

struct amb_audit;
struct amb_auth_users;
struct amb_client;
struct amb_config;
struct amb_counters;
struct amb_handshakers;
struct amb_membudget;
struct amb_observer;
struct amb_porter;
struct amb_service;
struct amb_shard;
struct amb_transports;
struct amb_ucx_context;
struct Amb__Control__Control;

struct amb_listener {
    struct amb_watch watch;
    struct amb_control *control;
    struct amb_url url; /* with the real port */
    int fd;
    bool is_paused;
    uint64_t socket_inode; /* UNIX: of the socket file that is ours to remove */
};

/* The used indices of one shard's sessions, and how often each was used. */
struct amb_session_indices {
    uint32_t *generations;       /* odd: in use */
    struct amb_client **clients; /* of those in use; or NULL */
    uint32_t count;
    uint32_t sessions;   /* in use */
    uint32_t first_free; /* all below it are in use */
};

/* The interface of an address of ours, and its speed, as they were lately. */
struct amb_control_network {
    struct sockaddr_storage here;
    char interface[IF_NAMESIZE]; /* "": none has it */
    uint64_t rate;               /* bytes a second; 0: it does not tell */
    int64_t until_ns;            /* then it is asked again */
};

struct amb_control {
    struct amb_inbox inbox;
    struct amb_watch inbox_watch;
    const struct amb_config *config;
    struct amb_membudget *budget;
    struct amb_shard *const *shards;
    unsigned shard_count;
    struct amb_ucx_context *ucx;
    struct amb_porter *porter;               /* NULL: slow work is done here */
    struct amb_observer *observer;           /* NULL: no views can be asked for */
    struct amb_service *service;             /* NULL: no service manager is to be told anything */
    struct amb_list_node views;              /* queries of views.c whose clients have
                                                much to read yet */
    struct amb_list_node looks;              /* queries of status.c that wait for files */
    uint64_t doctor_next;                    /* id of the client with which the doctor's next
                                                look begins; 0: the newest */
    struct amb_handshakers *handshakers;     /* NULL: no listener is encrypted */
    const struct amb_transports *transports; /* why there is none, and when it is preferred */
    uint32_t ucx_release, ucx_tx_seg, ucx_rx_seg;
    const char *ucx_broken; /* static: UCX could not open a port, and is not asked again; or NULL */
    const char *no_ring;    /* static: why this system has no rings; or NULL */
    struct amb_auth_users
        *users; /* a reference; NULL: no users file, and anybody's uid is a user */
    struct amb_rights_table rights; /* of those who have logged in */
    struct amb_directory directory;
    struct amb_identities identities;
    struct amb_parties parties;
    struct amb_tenants tenants;
    struct amb_listener listeners[AMB_LISTENERS_MAX];
    unsigned listener_count;
    struct amb_watches watches;
    bool kernel_names_peers; /* amb_peer_kernel_tells */
    uint32_t kept_fds;       /* that were passed in place of a pidfd: AMB_KEPT_FDS_MAX */
    uint64_t epoch;
    uint32_t overflow_uid;           /* user.h */
    uint64_t host;                   /* the number of this machine: host.h */
    uint64_t pid_ns, ipc_ns, net_ns; /* our namespaces: inodes, 0: unknown */
    struct {
        uint64_t copy, socket, cipher[AMB_TLS_SUITES];
    } rates; /* bytes a second of this machine's memory, sockets and suites; 0: not measured yet */
    uint64_t next_client;
    struct amb_list_node clients, dead;      /* struct amb_client.node */
    struct amb_list_node revoked, unrenewed; /* struct amb_client.of_revoked: renew.h */
    bool reviews_queues;                     /* the same */
    struct amb_left_maps left_maps; /* they may have to go too, once their users lose rights */
    struct amb_list_node unread;    /* struct amb_client.of_unread: no socket tells of them */
    bool has_fallen;                /* amb_user.has_fallen of some user */
    struct amb_control_network networks[AMB_CONTROL_NETWORKS];
    struct amb_idmap by_id; /* struct amb_client.known: those and the dead */
    uint32_t client_count;
    struct amb_half_open half_open;
    uint32_t proofs;        /* signatures that handshakers have, also of clients that have ended */
    uint32_t opening_count; /* orders that make a session; their clients may have gone */
    struct amb_session_indices *indices; /* one for each shard */
    uint64_t config_number;              /* of the configuration: each reload brings another one */
    int64_t now_ns, started_ns, tick_ns;
    int64_t resume_accept_ns; /* listeners are paused until then; 0: not paused */
    int64_t pause_logged_ns, refusal_logged_ns;
    struct amb_list_node resting; /* struct amb_client.of_resting: past their quotas of requests, */
    int64_t rest_due_ns;          /* ... and when they are to be looked at */
    int64_t quotas_seen_ns, quotas_since_ns; /* when they were last looked at; the time since */
    uint32_t round;                          /* of the loop: whose turn it is at the door */
    /* drain */
    bool is_draining, is_over;
    unsigned drain_calls;
    int64_t drain_started_ns, drain_deadline_ns;
    int64_t drain_limit_ns; /* that a command has named; -1: the configuration's */
    unsigned backlog_orders;
    uint64_t backlog, held, idle_backlogs;
    bool is_backlog_partial;        /* there was no memory to ask all workers for theirs */
    uint32_t events;                /* under way: events.h */
    struct amb_broker_stats *stats; /* of the counters, or own_stats */
    struct amb_broker_stats own_stats;
    struct amb_counters *counters; /* NULL: objects have no slots */
    struct amb_closed_clients closed;
    struct amb_failures failures;
    /* administration */
    struct amb_audit *audit; /* NULL: no log.audit */
    struct amb_blocklist blocked;
    uint64_t commands;                               /* that there were */
    _Atomic(const struct amb_control_hooks *) hooks; /* NULL: the program has none */
    struct amb_list_node reloads;                    /* commands that wait for one: admin.c */
    _Atomic uint64_t reloads_asked;                  /* by such */
    struct amb_list_node traces;                     /* under way: admin/tracing.c */
    uint32_t next_ticket;                            /* of their batches */
    struct amb_expiry expiry;
    /* A client's messages are carried out above the clients: see requests.h. */
    void (*on_request)(struct amb_client *client, const struct Amb__Control__Control *message);
};

/* Settings that may change while the broker runs are as config says, here and, by order, on the
 * workers. */
void amb_control_use_config(struct amb_control *control, const struct amb_config *config);

/* A session index on the shard with the fewest sessions. ELIMIT. */
AMB_MUST_CHECK enum amb_status amb_control_session_take(struct amb_control *control,
                                                        struct amb_session_id *out);
void amb_control_session_give(struct amb_control *control, const struct amb_session_id *id);
/* A session that was taken is this client's, until it is given back. */
void amb_control_session_assign(struct amb_control *control, const struct amb_session_id *id,
                                struct amb_client *client);
/* The client of that session, on whatever shard its secret says. NULL: there is none. */
struct amb_client *amb_control_session_client(const struct amb_control *control, uint32_t index,
                                              uint32_t generation, uint64_t secret);
/* Sessions there are, the quarantined ones too. */
uint32_t amb_control_sessions(const struct amb_control *control);
