/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/client_closed.h"

#include "broker/auth/numbers.h"
#include "broker/auth/users.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/login.h"
#include "broker/count/counters_slots.h"
#include "broker/count/figures.h"
#include "wire/base/clock.h"

/* A slot of no scope is seen by nobody. */
void amb_client_closed_prepare(struct amb_control *control)
{
    const struct amb_closed_words nothing = {0};
    for (uint32_t i = 0; i < AMB_CLOSED_MAX; i++) {
        (void)amb_counters_put_texts(control->counters, &control->closed.slots[i], 0, 0, &nothing,
                                     sizeof(nothing), NULL, 0);
    }
}

void amb_client_closed(const struct amb_client *client, const char *kind, const char *why)
{
    struct amb_control *control = client->control;
    struct amb_closed_clients *closed = &control->closed;
    uint32_t *slot = &closed->slots[closed->count % AMB_CLOSED_MAX];
    const struct amb_login *login = &client->login;
    int64_t lived_ns = control->now_ns - client->connected_ns;
    char user[AMB_AUTH_NAME_MAX];
    closed->count++;
    if (*slot == 0) {
        return; /* There were fewer slots. */
    }
    const struct amb_closed_words words = {
        .client = client->id,
        .pid = (uint64_t)client->pid,
        .uid = client->uid,
        .worker = client->session.shard,
        .tenant = amb_tenant_number(client->tenant),
        .status = (uint64_t)client->end_status,
        .closed_s = (uint64_t)(amb_clock_realtime_ns() / AMB_NS_PER_SEC),
        .lived_s = (uint64_t)(lived_ns / AMB_NS_PER_SEC),
    };
    const char *const texts[] = {client->name,
                                 kind,
                                 amb_link_kind_name(client->link),
                                 client->address,
                                 amb_login_user_text(client, user),
                                 login->user == NULL ? "" : login->user->tenant,
                                 why};
    (void)amb_counters_put_texts(control->counters, slot, AMB_COUNTERS_CLOSED, closed->count,
                                 &words, sizeof(words), texts, sizeof(texts) / sizeof(texts[0]));
}
