/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client as the control thread knows it: its control connection, and the things that it has
 * opened. Its identity is by its own word and by the kernel's.
 *
 *   HELLO ─► AUTH ─► OPENING ─► LIVE ─► ENDING ─► gone
 *     └─ (Attach: the connection becomes the stream link of another client)
 *
 * ENDING: the connection is closed; the session's worker is giving up what it had. A client whose
 * process may still read or write something in place stays, quarantined. It goes when its pidfd
 * says that the process is gone. That pidfd is asked for here, so that a client that lives costs no
 * descriptor for it. At Auth it is asked whether that process lives. The README of this room has
 * the function of each arrow.
 *
 * Threads: the control thread. Memory: one allocation; a client is freed when it has ended, no
 * order of it is under way, and it has no session.
 */
#pragma once

#include "broker/base/heap_account.h"
#include "broker/base/tenant.h"
#include "broker/control/clients/login.h"
#include "broker/control/clients/watch.h"
#include "broker/control/directory/directory.h"
#include "broker/rights/rights.h"
#include "broker/tls/crowds.h"
#include "wire/base/idmap.h"
#include "wire/codec/control.h"
#include "wire/codec/frame.h"
#include "wire/codec/url.h"

#include <sys/types.h>

#define AMB_CLIENT_NAME_MAX 63u
#define AMB_CLIENT_OUT_MAX (UINT64_C(4) << 20) /* bytes queued for a client that does not read */
#define AMB_CLIENT_FDS_MAX 2u
#define AMB_NONCE_SIZE 32u

struct amb_control;
struct amb_listener;
struct amb_party;
struct amb_tls;

enum amb_client_state {
    AMB_CLIENT_HELLO,
    AMB_CLIENT_AUTH,
    AMB_CLIENT_OPENING,
    AMB_CLIENT_LIVE,
    AMB_CLIENT_ENDING,
};

/* Why a client is not read for a while: bits. */
enum amb_client_pause {
    AMB_PAUSE_LOGIN = 1, /* its proof is looked at, or its refusal waits */
    AMB_PAUSE_WORK = 2,  /* too many requests of it are under way */
    AMB_PAUSE_QUOTA = 4, /* its user is past a quota: client_rest.h */
};

/* The things that a client has open, by handle. It grows with use: most clients have little. */
struct amb_client_table {
    void **at;
    uint32_t count;
};

struct amb_client {
    struct amb_watch watch;       /* the connection */
    struct amb_watch pidfd_watch; /* the process */
    struct amb_list_node node;
    struct amb_idmap_node known; /* by its number */
    struct amb_control *control;
    enum amb_client_state state;
    uint64_t id;
    struct amb_listed listed;       /* while it has a session: client_listed.h */
    uint64_t listed_maps;           /* that its rights cover, as they were */
    uint64_t listed_maps_of;        /* ... with that configuration; 0: to be asked anew */
    int fd, pidfd;                  /* -1: none */
    struct amb_tls *tls;            /* of the connection; NULL: it is plain */
    struct amb_list_node of_unread; /* of control->unread: TLS has bytes of it in hand */
    int closing_fd;                 /* its connection, shut down, while no pidfd can be had; -1 */
    bool knows_process;             /* a pidfd is there, or will be: it lived at Auth */
    bool is_unix, is_dead;          /* is_dead: the process is known to be gone */
    bool is_given_up;               /* nobody waits for that; its process may live on */
    bool has_session, is_quarantined, said_bye;
    bool is_replaced; /* another session has been let in, in place of this one that goes */
    unsigned orders;  /* under way */
    unsigned work;    /* of them, requests that a worker answers as soon as it can */
    uint8_t paused;   /* enum amb_client_pause; 0: it is read */
    bool is_logged;   /* the log has a line about it */
    bool has_asked;   /* a view: it gets that line when it does something else */
    bool is_leaving;  /* it has closed its connection meanwhile: its Bye alone is heard yet */
    uint32_t watched; /* epoll events of the connection */
    uid_t uid;        /* -1: unknown */
    uint32_t user;    /* user.h; by login.user, where there is one */
    struct amb_login login;
    const struct amb_tenant *tenant; /* by login.user; NULL: the operators' */
    uint32_t sharer;           /* the owner of names that users of its tenant have in common */
    struct amb_rights *rights; /* of its user, a reference; NULL: it may do everything */
    struct amb_list_node of_resting; /* of control->resting: client_rest.h */
    int64_t rest_told_ns;            /* it rests since then, or has had a sign of life */
    int64_t free_ping_ns;            /* its last Ping that was not billed */
    struct amb_list_node of_revoked; /* of control->revoked: it is to end, */
    enum amb_status revoked;         /* ... with that; OK: it is not */
    char *kick_text;                 /* ... and these words of an operator; NULL: none */
    bool is_unrenewed; /* or of control->unrenewed: it has not been compared with the users in
                          force */
    bool loses_maps;   /* its process may keep mapped what it may not read any more: renew.h */
    gid_t gid;
    pid_t pid;
    char name[AMB_CLIENT_NAME_MAX + 1];
    char version[32];
    char address[64];
    enum amb_link_kind link;
    const char *link_reason;              /* why not a better one: static, or link_text; NULL */
    char link_text[AMB_CONTROL_TEXT_MAX]; /* with its own words, or with the two releases */
    bool insists;                         /* on that link */
    bool ucx_late;                        /* it says in Auth which UCX it has: AMB_PEER_UCX_LATE */
    uint32_t ucx_release, ucx_tx_seg, ucx_rx_seg; /* of its UCX; 0: it has told none */
    enum amb_link_kind wish;                      /* the link that its URL insists on */
    const char *ucx_obstacle; /* why the ucx link cannot serve it; as link_reason; NULL: it can */
    uint32_t expect;          /* enum amb_expect */
    uint32_t lanes_lack; /* of these, what the lanes of its ucx link do not offer; 0: not known */
    struct {
        uint64_t host, pid_ns, ipc_ns, net_ns;          /* 0: unknown */
        char visible_devices[AMB_VISIBLE_DEVICES_SIZE]; /* as Peer has it */
    } place;                                            /* by its own word */
    char gpu_reason[80]; /* why it does not map GPU memory, in its own words */
    bool has_gpu;        /* it has asked for GPU memory */
    bool has_leased;     /* it has asked for memory to write in place */
    /* Its word on GPU memory that did not stay on a GPU, with its last sign of life. */
    uint64_t staged_in, staged_out, staged_in_msgs, staged_out_msgs;
    char staged_why[128];
    uint8_t nonce[AMB_NONCE_SIZE];
    uint64_t secret;
    struct amb_session_id session;
    struct amb_order *end_order; /* struct amb_order_session_end, made with the session: its end
                                  * must not need memory */
    int64_t deadline_ns, seen_ns, connected_ns;
    int64_t peer_timeout_ns; /* that it was told */
    int64_t refusal_ns; /* when it is told that it is not authenticated; 0: it is not refused */
    uint64_t quarantined_bytes;
    struct amb_party *party;    /* that is charged: from Auth on */
    uint64_t mapped_max;        /* that its session may hold in place */
    uint64_t charged_bytes;     /* to its party, for a session that ends without a word: mapped_max
                                 * until the worker has counted, then quarantined_bytes */
    enum amb_status end_status; /* that it was told as the end of its session; OK: none */

    /* While it is half open: half_open.h. */
    struct amb_crowd_member by_crowd;
    struct amb_crowd *crowd; /* NULL: none */

    struct amb_control_reader reader;
    Amb__Control__Control *kept; /* a message that is handled later, and freed then; NULL */
    bool asks_for_pidfd;         /* Challenge does: one may come with Auth */
    int passed_fd;               /* a pidfd that came with Auth; -1: none */
    struct amb_list_node out;    /* struct client_out */
    uint64_t out_bytes;          /* of the heap */
    bool owes_pong;              /* once all of that is sent: the newest alone is answered */
    int64_t pong_ns;             /* ... of the Ping's */
    struct amb_heap_account heap;

    struct amb_client_table publishers; /* struct amb_dir_publisher */
    uint32_t publisher_count;
    struct amb_client_table subs;     /* struct amb_dir_sub */
    struct amb_pair_account *account; /* of its subscriptions' pairs; NULL: it has none yet */
};

/* The number of its tenant. */
static inline uint32_t amb_client_tenant(const struct amb_client *client)
{
    return amb_tenant_number(client->tenant);
}

/* The open one of a handle, or NULL; also for a handle that cannot be. */
static inline struct amb_dir_publisher *amb_client_publisher(const struct amb_client *client,
                                                             uint32_t handle)
{
    return handle < client->publishers.count ? client->publishers.at[handle] : NULL;
}
static inline struct amb_dir_sub *amb_client_sub(const struct amb_client *client, uint32_t handle)
{
    return handle < client->subs.count ? client->subs.at[handle] : NULL;
}

/* Takes fd, also on failure. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_client_create(struct amb_control *control, int fd, bool is_unix,
                                                 struct amb_client **out);

/* Its connection goes through TLS, whose handshake is done: takes it. ELIMIT: its account has no
 * room for that, and tls stays the caller's. */
AMB_MUST_CHECK enum amb_status amb_client_use_tls(struct amb_client *client, struct amb_tls *tls);

/* The live client of that number; NULL: there is none. */
struct amb_client *amb_client_find(const struct amb_control *control, uint64_t id);

/* Its Auth is there: from here on its process is known, if at all. */
void amb_client_know_process(struct amb_client *client);
/* Its Hello is good, and it is sent a challenge: HELLO ─► AUTH. */
void amb_client_challenged(struct amb_client *client);
/* Its Auth is good, and client->session is its place; its worker is asked to make the session:
 * AUTH ─► OPENING. */
void amb_client_opening(struct amb_client *client);
/* The worker's answer. True: the client is LIVE. False: there is no session, or the client has
 * ended meanwhile and its session is closed. */
bool amb_client_opened(struct amb_client *client, enum amb_status status);
/* Not authenticated: says so, sooner or later, and closes the connection. One text for everything.
 */
void amb_client_refuse(struct amb_client *client);
/* Its line in the log, once: it has done something, or has been here for a while. Not for those
 * that but look at the broker. */
void amb_client_log(struct amb_client *client);
/* Ends it: closes the connection, has its session closed. why is for the log. Harmless twice. */
void amb_client_end(struct amb_client *client, const char *why);
/* Frees clients that have ended; called between two rounds of events. */
void amb_client_bury(struct amb_control *control);
/* Deadlines: handshake, heartbeat. */
void amb_client_tick(struct amb_client *client, int64_t now_ns);

/* left: it said so; ended: the broker ended it, and told it why; lost: neither. */
static inline const char *amb_client_end_kind(const struct amb_client *client)
{
    return client->said_bye ? "left" : client->end_status != AMB_OK ? "ended" : "lost";
}
