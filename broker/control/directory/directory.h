/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory: which topics there are, where they are at home, who subscribes to what. The
 * control thread alone changes it, so no worker ever matches a pattern. A worker is told which
 * cursor to put into which topic, before the first message that the cursor must see.
 *
 * Order of the orders: the topic's home comes first. From then on it lends to the subscriber's
 * worker, and it sends the order on to that worker, to attach the cursor. Mail keeps that order, so
 * a lent entry always finds its cursor.
 *
 * A topic is quiet until its first message. Until then only subscriptions to its very name have a
 * cursor in it. Those with a wildcard are counted by their patterns (patterns.h). The first message
 * waits at home, and home tells the control thread, which wakes the topic. It makes the pairs with
 * all wildcards that match, in slices, and then has home go on. So a topic without messages costs
 * nothing for each of its readers.
 *
 *   QUIET ── first message ─► WAKING ── all pairs are made ─► AWAKE
 *
 * Each priority of a topic that somebody has published with is a topic of its own here, beside the
 * main one of its name. That one stays as long as it has such kin (priority.h).
 *
 * A topic that nobody publishes to and nobody reads by its name is idle. After limits.topic_idle it
 * leaves, when those who read it by a wildcard have come to its end. They find it again when it
 * comes again.
 *
 *   asked ─► out of the names ─► its last publishers are heard out ─► home forgets it
 *         ─► each borrower does ─► home has read their mail ─► freed
 *
 * so that neither a last message nor a lent entry nor a word about one meets freed memory. Its id
 * comes again late.
 *
 * Threads: the control thread. Memory: one allocation an object; limits of struct amb_config.
 */
#pragma once

#include "broker/base/party.h"
#include "broker/base/trust_group.h"
#include "broker/control/directory/patterns.h"
#include "broker/control/directory/readers.h"
#include "broker/count/counters_slots.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/rights/rights.h"
#include "broker/shard/state/observe.h"
#include "broker/topic/begin.h"
#include "broker/worker/orders.h"
#include "wire/base/hash.h"
#include "wire/base/list.h"
#include "wire/base/status.h"
#include "wire/codec/topic.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_config;
struct amb_dir_chore;
struct amb_dir_queue;
struct amb_identity;
struct amb_request;
struct amb_shard;
struct amb_user;
struct amb_topic;

/*
 * Pairs that are counted together: a client's, and those of queues that it was the first member of.
 * A pair is a topic that has had a message and a subscription with a wildcard that reads it: a
 * cursor on a worker. The bounds are limits.max_pairs_per_client and limits.max_pairs, of which a
 * user has a share (limits.user_share), and a party half of the rest (directory_accounts.c).
 */
struct amb_pair_account {
    uint32_t refs;
    uint32_t pairs;            /* some of topics that have gone may be among them */
    uint64_t looked_at;        /* directory->pairs_gone when they were last looked for */
    void *owner;               /* the client; NULL: it has gone */
    struct amb_party *party;   /* and whose that was; NULL: nobody's */
    struct amb_list_node subs; /* struct amb_dir_sub.of_account */
};

/* A walk over the quiet topics, which tells whose readers are more, or fewer, than was said. */
struct amb_dir_counts {
    uint64_t generation; /* of the patterns, when it began */
    int64_t began_ns;
    uint32_t next; /* cell */
    bool is_on;
};

/* Of slow_orders, and of wake_pairs: past it nothing that can wait is begun. */
#define AMB_PAIRS_UNDER_WAY 1024u

struct amb_directory {
    struct amb_counters *counters; /* where objects are listed; NULL: nowhere */
    /* The text of the owner of names; `out` has AMB_AUTH_NAME_MAX bytes. NULL: nobody says. */
    const char *(*owner_text)(struct amb_directory *directory, uint32_t user, char *out);
    /* The name of a tenant; NULL: there are none. */
    const char *(*tenant_text)(struct amb_directory *directory, uint32_t tenant);
    const struct amb_config *config;
    struct amb_shard *const *shards;
    unsigned shard_count;
    struct amb_map *by_name; /* by tenant_key.h */
    struct amb_trust_groups trust_groups;
    struct amb_patterns patterns;        /* of all subscriptions */
    struct amb_list_node topics, subs;   /* all of them */
    struct amb_list_node idle;           /* struct amb_dir_topic.idle, longest first */
    struct amb_list_node leaving;        /* struct amb_dir_topic.node */
    struct amb_list_node counts_changed; /* struct amb_dir_topic.of_counts: others read it now */
    struct amb_dir_counts counts;        /* of those that read quiet topics */
    struct amb_list_node queues;         /* struct amb_dir_queue.node: queues.h */
    uint32_t queue_review;               /* the number of the last one: queues.h */
    uint32_t topic_count, sub_count;
    uint32_t awake_count; /* of the topics: those that are not quiet */
    uint32_t sys_count;   /* subscriptions to $ topics */
    uint32_t cells;       /* of topic ids that were ever given */
    uint32_t *free_ids;   /* a ring: the next ids of cells that are free */
    uint32_t free_size, free_first, free_count;
    struct amb_dir_topic **by_cell; /* topics that have not gone, by amb_topic_cell */
    uint64_t serial;                /* counts subscriptions as they come, and topics as they wake */
    uint64_t pair_count;
    uint64_t pairs_gone;            /* pairs that topics took along, of all time */
    struct amb_pair_account *going; /* there were too many pairs, and its client ends for it */
    struct amb_list_node chores;    /* struct amb_dir_chore.node: pairs still to make or undo */
    unsigned at_once;               /* topics that subscriptions came to or went from, this round */
    unsigned slow_orders;           /* under way: of chores, and counts for homes */
    struct amb_list_node wakers;    /* struct amb_waker.line: parties take turns, a topic each */
    struct amb_waker no_party;      /* of topics that no party's client publishes to */
    unsigned wake_pairs;            /* made for them, and their homes have not answered yet */
    struct amb_list_node over;      /* struct amb_dir_sub.of_over: have met a limit of pairs */
    uint64_t next_sub;
    struct amb_trace *traces[AMB_TRACES_MAX]; /* armed: new topics may be of them */
    int64_t now_ns;                           /* the owner's */
    bool is_over;                             /* workers have ended: no more orders */
    bool is_ending; /* the broker drains: durable names do not outlive their last member */
};

enum amb_leave_stage {
    AMB_LEAVE_PUBLISHERS,
    AMB_LEAVE_HOME,
    AMB_LEAVE_BORROWERS,
    AMB_LEAVE_FENCE,
};

enum amb_dir_wake {
    AMB_DIR_QUIET,
    AMB_DIR_WAKING,
    AMB_DIR_AWAKE,
};

struct amb_dir_topic {
    struct amb_list_node node;
    struct amb_list_node publishers; /* struct amb_dir_publisher.of_topic */
    struct amb_directory *directory;
    struct amb_list_node idle;      /* in the directory's list */
    int64_t idle_ns;                /* since when */
    struct amb_list_node of_counts; /* in one of the directory's three lists, or none */
    enum amb_leave_stage stage;
    bool is_asked, is_gone;
    struct amb_party *party;   /* that pays for it, until it leaves; or NULL */
    uint32_t uses, uses_asked; /* counts whoever began to use it; as it was asked */
    unsigned unanswered;       /* leaving: orders without an answer */
    bool is_again;             /* leaving: a worker was not ready */
    uint64_t on;               /* leaving: shards that still have it, by bit */
    uint64_t spoken_on;        /* shards on which it has had publishers that have gone, by bit */
    uint32_t id;
    unsigned home;
    const struct amb_trust_group *group; /* of its payloads, but for those that are private */
    enum amb_priority priority;          /* only those of NORMAL are found by name, */
    struct amb_dir_topic *main; /* ... others by that one of their name; NULL: is that one */
    struct amb_dir_topic *kin[AMB_PRIORITY_LOW + 1]; /* of the main one: by priority, or NULL */
    uint32_t kin_count;                              /* those that leave, too */
    enum amb_dir_wake wake;
    bool is_unwanted;            /* main: an operator has removed it; it goes after its kin */
    struct amb_list_node waking; /* in the list of the party whose turn it waits for, */
    struct amb_party *woken_by;  /* ... to which it has a reference then; NULL: no_party's */
    /* When it was woken: pairs with subscriptions that had come by then are made by that, and
     * others by their coming. UINT64_MAX: it is quiet. */
    uint64_t serial;
    uint32_t told; /* how many subscriptions match, as its publishers know it */
    struct amb_dir_wild {
        uint64_t generation; /* of the patterns; 0: not counted yet */
        uint32_t count;
        struct amb_readers readers;
        bool is_cut;            /* there are more than could be looked at */
    } wild;                     /* quiet: subscriptions with a wildcard that match */
    uint32_t pairs;             /* with subscriptions that have a wildcard */
    uint32_t connected;         /* subscriptions that read it, those without a wildcard too */
    struct amb_readers readers; /* of them, those that read in place where they may */
    uint32_t publisher_count;
    struct amb_topic **on_shard; /* one for each shard, NULL where there is none */
    struct amb_listed listed;
    uint32_t tenant; /* the owner: broker/base/tenant.h */
    uint32_t name_len;
    char name[];
};

/* A client's publisher, embedded in the client. */
struct amb_dir_publisher {
    struct amb_list_node of_topic;
    struct amb_dir_topic *topic; /* NULL: not open */
    struct amb_session_id session;
    uint32_t handle;
    struct amb_identity *identity; /* or NULL */
    struct amb_party *party;       /* its client's, who holds the reference; or NULL */
    bool is_auto;                  /* trust = "auto": what it leases is its user's to read */
    bool told_copies;              /* amb_directory_copies, as its worker knows it */
    uint32_t user;
    bool is_closing; /* its worker has not answered yet; the handle is in use until then */
    struct amb_request *opening; /* that opens it, until its worker has answered; or NULL */
};

struct amb_dir_sub {
    struct amb_list_node node;
    struct amb_list_node same; /* of its pattern's */
    struct amb_pattern *filed; /* that one; NULL: it is not entered */
    uint64_t id, serial;       /* serial: when it came */
    struct amb_listed listed;
    uint64_t woken;                   /* serial of the last topic that was woken for it */
    bool is_wild;                     /* its pattern is no topic's name */
    struct amb_pair_account *account; /* NULL: nobody's. A reference while it is entered */
    struct amb_list_node of_account, of_over;
    const char *over; /* the limit of pairs that it has met; NULL: none */
    uint32_t *pairs;  /* ids of the topics that it reads, and of some that have gone */
    uint32_t pair_count, pair_size;
    struct amb_dir_chore *coming; /* not all topics have it yet; or NULL */
    struct amb_session_id session;
    uint64_t client_id;
    uint32_t handle;
    bool is_closing; /* as that of a publisher */
    bool is_idle;    /* takes no messages: a member that has stopped, a queue without others */
    bool may_map;    /* its client reads in place, */
    uint64_t maps;   /* ... in these trust groups: a bit each */
    /* Its pattern was narrowed: it never connects to topics that these denies match. A reference
     * until it leaves; NULL: it was not. */
    struct amb_rights *rights;
    struct amb_rights_cut cut;
    uint32_t user, tenant; /* it reads topics of that tenant alone */
    struct amb_subscription_options options;
    struct amb_dir_queue *queue; /* NULL: it reads itself, else is a member there */
    struct amb_begin
        begin;       /* in each topic; of start = POSITION: in those the position names not */
    bool is_foreign; /* the position is of another life of the broker */
    uint32_t pattern_len;
    char pattern[AMB_TOPIC_MAX + 1];
    uint8_t *position; /* behind this struct: checked; wire/codec/position.h */
    uint32_t position_len;
};

AMB_MUST_CHECK enum amb_status amb_directory_init(struct amb_directory *directory,
                                                  const struct amb_config *config,
                                                  struct amb_shard *const *shards,
                                                  unsigned shard_count);
/* After the workers have ended: topics go with it. */
void amb_directory_fini(struct amb_directory *directory);

/* The tenant's topic of that name, made with `home` if there is none; where there are too many, the
 * one idle for longest leaves. payer: whose it is if it is made; NULL: nobody's. ELIMIT, ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_directory_topic(struct amb_directory *directory, uint32_t tenant,
                                                   const char *name, size_t len, unsigned home,
                                                   struct amb_party *payer,
                                                   struct amb_dir_topic **out);
/* The one of that name with that priority, made if there is none. As amb_directory_topic. */
AMB_MUST_CHECK enum amb_status amb_directory_priority(struct amb_directory *directory,
                                                      struct amb_dir_topic *main,
                                                      enum amb_priority priority,
                                                      struct amb_party *payer,
                                                      struct amb_dir_topic **out);
/* Is that topic of that priority there? */
bool amb_directory_has(const struct amb_directory *directory, uint32_t tenant, const char *name,
                       size_t len, enum amb_priority priority);
/* Does anybody of the tenant read a topic of that name, or may do so? */
bool amb_directory_is_read(const struct amb_directory *directory, uint32_t tenant, const char *name,
                           size_t len);
/* The client that it was made for does not use it after all. */
void amb_directory_unused(struct amb_directory *directory, struct amb_dir_topic *topic);
/* Enters and removes a publisher, for its topic's SUBSCRIBERS counts. */
void amb_directory_publish(struct amb_dir_publisher *publisher, struct amb_dir_topic *topic);
void amb_directory_unpublish(struct amb_directory *directory, struct amb_dir_publisher *publisher);

/* May another subscription be entered? */
bool amb_directory_has_room(const struct amb_directory *directory);
/* The id of a subscription that is to be entered. */
uint64_t amb_directory_next_sub(struct amb_directory *directory);
/*
 * Enters a subscription whose session is told already (amb_order_subscription_open). It reads every
 * topic that matches: some from here on, those of a chore slice by slice, quiet ones from their
 * first message. `done` is called, with context, for each order that must have been carried out
 * before the subscription counts as active. The last order of a chore is one of these. Returns how
 * many. Past a limit of pairs, and without memory, the subscription is put into directory->over.
 */
unsigned amb_directory_subscribe(struct amb_directory *directory, struct amb_dir_sub *sub,
                                 amb_order_done_fn done, void *context);
/* It is slow in that way from here on. Homes count who holds publishers back. */
void amb_directory_reslow(struct amb_directory *directory, struct amb_dir_sub *sub,
                          enum amb_slow slow, bool is_idle);
/* Removes it; its session has given, or gives, up the cursors itself. Harmless twice. */
void amb_directory_unsubscribe(struct amb_directory *directory, struct amb_dir_sub *sub);
