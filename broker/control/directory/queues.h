/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues of the directory: acknowledged subscriptions, groups and durable names, as the control
 * thread knows them. A queue reads topics as a subscription does, on a worker of its own choice;
 * its members are subscriptions that read nothing themselves.
 *
 *   queue's worker is told ─► its cursors are attached ─► the member's worker makes the member ─►
 *   which joins at the queue's worker ─► the client is answered
 *
 * Names belong to users (user.h): those of two users are two names, and nobody can take, join or
 * remove another's. Operators remove anybody's.
 *
 * A group goes with its last member, a durable name when it has had none for
 * limits.durable_expiry, or by `broker-ctl queues rm`.
 *
 * Threads: the control thread. Memory: one allocation a queue; they count as subscriptions.
 */
#pragma once

#include "broker/control/directory/directory.h"
#include "broker/delivery/acks/queue.h"

#define AMB_QUEUE_NAME_MAX 64u

struct Amb__Control__Subscribe;
struct amb_order_subscription_open;

/* A client's wish. Names: "" for none. */
struct amb_queue_wish {
    uint32_t user; /* the user of its names */
    const char *group, *durable;
    const char *filter; /* as text; "": none */
    struct amb_queue_options options;
};

struct amb_dir_queue {
    struct amb_list_node node; /* in the directory's list of them */
    struct amb_listed listed;
    struct amb_dir_sub sub; /* that reads for it: its session is the queue's worker */
    uint32_t user;
    /* Of its first member; a client that comes while there is one must ask for the same. */
    struct amb_queue_options options;
    char *filter;             /* of a queue with a name; NULL: none */
    bool is_forbidden;        /* its owner has lost the right to it: it goes with its last member */
    uint32_t review;          /* the last one that it was asked about in */
    uint32_t members, active; /* active: they have not stopped taking messages */
    int64_t idle_ns;          /* since when it has no members, */
    struct amb_party *party;  /* and who pays for its subscription meanwhile; or NULL */
    struct amb_party *payer;  /* of its heap: the party that made it; or NULL */
    uint64_t heap;
    char group[AMB_QUEUE_NAME_MAX + 1], durable[AMB_QUEUE_NAME_MAX + 1];
};

/* Does a client's request ask for one? */
bool amb_queues_are_wanted(const struct Amb__Control__Subscribe *subscribe);
/* NULL, or the fault of its acknowledgements and names. */
const char *amb_queues_refusal(const struct Amb__Control__Subscribe *subscribe);
/* The wish; the strings are the request's. */
void amb_queues_wish(const struct Amb__Control__Subscribe *subscribe, uint32_t user,
                     const struct amb_subscription_options *options, struct amb_queue_wish *out);

/* 1 to 64 letters, digits and "-_.:@"? "" too. */
bool amb_queue_name_check(const char *name);

/*
 * Makes `sub`, whose pattern and session are set, a member of the queue that the wish names. Where
 * the wish names none, that is a new one of its own. Fills in what the order that opens the
 * subscription must say. `done` as for amb_directory_subscribe, *posted how often it will be
 * called. EBUSY, EFORBIDDEN, EINVAL, ENOMEM, and a sentence.
 */
AMB_MUST_CHECK enum amb_status
amb_queues_subscribe(struct amb_directory *directory, struct amb_dir_sub *sub,
                     const struct amb_queue_wish *wish, struct amb_order_subscription_open *open,
                     amb_order_done_fn done, void *context, unsigned *posted, const char **why);
/* It takes no more messages, though it may acknowledge some yet: a queue of which nobody does holds
 * no publisher up. Harmless twice, and of what is no member. */
void amb_queues_stop(struct amb_directory *directory, struct amb_dir_sub *sub);
/* amb_directory_unsubscribe for whatever it is; a member leaves its queue. Harmless twice. */
void amb_queues_unsubscribe(struct amb_directory *directory, struct amb_dir_sub *sub);
/* From here on each queue that there is is to be asked about, by amb_queues_review_next. */
void amb_queues_review(struct amb_directory *directory);
/* May the next one stay? If not, it is told to `gone`, and goes. False: there is no next one. */
typedef bool (*amb_queue_ask_fn)(const struct amb_dir_queue *queue, void *arg);
typedef void (*amb_queue_gone_fn)(const struct amb_dir_queue *queue, void *arg);
bool amb_queues_review_next(struct amb_directory *directory, amb_queue_ask_fn may_stay,
                            amb_queue_gone_fn gone, void *arg);
/* Such a durable name of that owner, without a member; NULL: there is none. Its party is charged.
 */
const struct amb_dir_queue *amb_queues_waiting(const struct amb_directory *directory,
                                               const char *durable, uint32_t user);
/* Now and then: durable names that nobody came back for. */
void amb_queues_tick(struct amb_directory *directory);
/* user: the name's owner; NULL: the only user with such a name. tenant: of queues of that one
 * alone; AMB_TENANT_ANY: of all. ENOTFOUND; EBUSY: it has members; EINVAL: several users have it.
 */
AMB_MUST_CHECK enum amb_status amb_queues_remove_durable(struct amb_directory *directory,
                                                         const char *name, const uint32_t *user,
                                                         uint32_t tenant);
/* The members of that durable name, found as by amb_queues_remove_durable, have all messages come
 * again that they did not acknowledge. `done` as for amb_directory_subscribe, with the orders
 * struct amb_order_member_recall; *posted how often it will be called. ENOTFOUND, EINVAL. */
AMB_MUST_CHECK enum amb_status amb_queues_recall(struct amb_directory *directory, const char *name,
                                                 const uint32_t *user, uint32_t tenant,
                                                 amb_order_done_fn done, void *context,
                                                 unsigned *posted);
/* The broker drains: names that nobody uses end now, the others with their last member. */
void amb_queues_end(struct amb_directory *directory);
/* The broker ends: all of them do, while the workers still run. */
void amb_queues_close(struct amb_directory *directory);
/* After the workers have ended. */
void amb_queues_forget(struct amb_directory *directory);
