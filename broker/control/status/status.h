/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The questions of broker-ctl. Views of the counters ("status", "metrics", "workers", "topics",
 * "subs", "queues", "clients") are made by the observer (views.h). "user test NAME publish WHAT"
 * asks for rights (rights_answer.h). The others are tables: "memory", "transports", "paths",
 * "doctor", "topo".
 *
 * "paths NAME" are those of clients of that name. Each worker writes its knowledge of its shard
 * into a JSON object of its own, on its own thread, some rows a turn. The control thread puts them
 * together with its own knowledge and answers. A table has AMB_STATUS_ROWS_MAX rows at most, and
 * "not_shown" says how many there are beside. Of clients these are the eldest: the control thread
 * says up to which id, and workers make rows of just those.
 *
 * Threads: the control thread, but for amb_status_ask; the collecting order runs on workers.
 * Memory: the JSON of an answer.
 */
#pragma once

#include "broker/base/mail.h"
#include "broker/config/config.h"
#include "broker/worker/orders.h"
#include "wire/base/status.h"

#include <jansson.h>
#include <stdint.h>

/* More would keep the control thread from others: 8,192 took it 150 to 190 ms. */
#define AMB_STATUS_ROWS_MAX 4096u
#define AMB_STATUS_ASK_MAX 96u /* bytes of a question of another thread */

struct amb_client;
struct amb_control;

/* Why the client may not ask at that level; NULL: it may. */
const char *amb_status_obstacle(const struct amb_client *client, enum amb_admin level);
/* The tenant that the client sees: its own, or AMB_TENANT_ANY. Operators see all, and so do users
 * that administrate all tenants. */
uint32_t amb_status_tenant(const struct amb_client *client);
/* Of a client without an obstacle at AMB_ADMIN_READ. Answers with AdminReply pieces, or Error:
 * EINVAL, ENOMEM, ETOOLARGE. Of "user test" also ENOTFOUND. */
void amb_status_request(struct amb_client *client, uint64_t id, const char *query);
/* A table that another thread asks for: "transports", "paths NAME". It sees all tenants. */
struct amb_status_ask {
    struct amb_mail mail;
    struct amb_inbox *to; /* where `done` is told, */
    amb_mail_fn done;     /* ... with `mail` */
    char query[AMB_STATUS_ASK_MAX];
    char *text; /* the answer, for free(); NULL: no such table, or no memory */
};
/* From any thread. The ask is the control thread's until `done`, which is not told where that
 * thread ends before. */
void amb_status_ask(struct amb_control *control, struct amb_status_ask *ask);
/* Questions whose files were waited for long enough are answered without them. */
void amb_status_run(struct amb_control *control);
/* The broker ends: no file is waited for. Then the inbox has to be run. */
void amb_status_end(struct amb_control *control);
/* An answer that is whole. Takes json; NULL: there was no memory for it, which is the answer. */
void amb_status_reply(struct amb_client *client, uint64_t id, json_t *json);
/* user: "", or the owner of the name, as tables show it. ENOTFOUND, EBUSY, EINVAL: several have it.
 * *why: static. */
AMB_MUST_CHECK enum amb_status amb_status_remove_durable(struct amb_client *client,
                                                         const char *name, const char *user,
                                                         const char **why);
/* Messages of that durable name come again: amb_queues_recall, but for EBUSY as above. */
AMB_MUST_CHECK enum amb_status amb_status_recall(struct amb_client *client, const char *name,
                                                 const char *user, amb_order_done_fn done,
                                                 void *context, unsigned *posted, const char **why);
