/* SPDX-License-Identifier: Apache-2.0 */
/* The hostile client's requests by its control connection, right and wrong ones. */
#include "tests/support/hostile/hostile_client.h"

#include "wire/base/clock.h"

#include <stdint.h>
#include <string.h>

#define PATIENCE_MS 30000

void hostile_ping(struct hostile *h, int64_t time_ns)
{
    Amb__Control__Ping ping;
    amb__control__ping__init(&ping);
    ping.time_ns = time_ns;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_PING;
    message.ping = &ping;
    (void)hostile_send(h, &message);
}

uint64_t hostile_pub_open(struct hostile *h, uint32_t handle, const char *topic, bool settled)
{
    Amb__Control__PubOpen open;
    amb__control__pub_open__init(&open);
    open.handle = handle;
    open.topic = (char *)(uintptr_t)topic;
    open.settled = settled;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.id = ++h->next_id;
    message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_OPEN;
    message.pub_open = &open;
    (void)hostile_send(h, &message);
    if (handle < AMB_HANDLES_MAX) {
        struct hostile_pub *pub = &h->pubs[handle]; /* The numbers of a handle go on. */
        pub->is_open = true;
        pub->asked = h->next_id;
    }
    return h->next_id;
}

uint64_t hostile_pub_close(struct hostile *h, uint32_t handle)
{
    Amb__Control__PubClose close;
    amb__control__pub_close__init(&close);
    close.handle = handle;
    close.batches = handle < AMB_HANDLES_MAX ? h->pubs[handle].batches : 1;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.id = ++h->next_id;
    message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_CLOSE;
    message.pub_close = &close;
    (void)hostile_send(h, &message);
    return h->next_id;
}

uint64_t hostile_send_subscribe(struct hostile *h, const Amb__Control__Subscribe *subscribe)
{
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.id = ++h->next_id;
    message.body_case = AMB__CONTROL__CONTROL__BODY_SUBSCRIBE;
    message.subscribe = (Amb__Control__Subscribe *)(uintptr_t)subscribe;
    (void)hostile_send(h, &message);
    if (subscribe->handle < AMB_HANDLES_MAX) {
        h->subs[subscribe->handle].is_open = true;
    }
    return h->next_id;
}

uint64_t hostile_subscribe(struct hostile *h, uint32_t handle, const char *pattern, uint32_t slow,
                           uint64_t credit_bytes, bool copy)
{
    Amb__Control__Subscribe subscribe;
    amb__control__subscribe__init(&subscribe);
    subscribe.handle = handle;
    subscribe.pattern = (char *)(uintptr_t)pattern;
    subscribe.credit_bytes = credit_bytes;
    subscribe.credit_msgs = credit_bytes == 0 ? 0 : UINT64_MAX;
    subscribe.slow = slow;
    subscribe.copy = copy;
    return hostile_send_subscribe(h, &subscribe);
}

uint64_t hostile_unsubscribe(struct hostile *h, uint32_t handle)
{
    Amb__Control__Unsubscribe unsubscribe;
    amb__control__unsubscribe__init(&unsubscribe);
    unsubscribe.handle = handle;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.id = ++h->next_id;
    message.body_case = AMB__CONTROL__CONTROL__BODY_UNSUBSCRIBE;
    message.unsubscribe = &unsubscribe;
    (void)hostile_send(h, &message);
    return h->next_id;
}

uint64_t hostile_lease_open(struct hostile *h, uint64_t slot, uint32_t slots)
{
    Amb__Control__LeaseOpen open;
    amb__control__lease_open__init(&open);
    open.slot = slot;
    open.slots = slots;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.id = ++h->next_id;
    message.body_case = AMB__CONTROL__CONTROL__BODY_LEASE_OPEN;
    message.lease_open = &open;
    (void)hostile_send(h, &message);
    return h->next_id;
}

uint64_t hostile_lease_say(struct hostile *h, int type, uint64_t segment)
{
    Amb__Control__LeaseMapped mapped;
    amb__control__lease_mapped__init(&mapped);
    mapped.segment = segment;
    Amb__Control__LeaseClose close;
    amb__control__lease_close__init(&close);
    close.segment = segment;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    if (type == AMB__CONTROL__CONTROL__BODY_LEASE_MAPPED) {
        message.body_case = AMB__CONTROL__CONTROL__BODY_LEASE_MAPPED;
        message.lease_mapped = &mapped;
        message.id = ++h->next_id;
    } else {
        message.body_case = AMB__CONTROL__CONTROL__BODY_LEASE_CLOSE;
        message.lease_close = &close;
    }
    (void)hostile_send(h, &message);
    return h->next_id;
}

uint64_t hostile_admin(struct hostile *h, const char *query)
{
    Amb__Control__Admin admin;
    amb__control__admin__init(&admin);
    admin.query = (char *)(uintptr_t)query;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.id = ++h->next_id;
    message.body_case = AMB__CONTROL__CONTROL__BODY_ADMIN;
    message.admin = &admin;
    (void)hostile_send(h, &message);
    return h->next_id;
}

bool hostile_await(struct hostile *h, uint64_t id)
{
    int64_t deadline_ns = amb_clock_monotonic_ns() + PATIENCE_MS * AMB_NS_PER_MS;
    while (h->answered < id && !h->is_over) {
        if (amb_clock_monotonic_ns() > deadline_ns) {
            hostile_fail("request %llu is not answered", (unsigned long long)id);
        }
        hostile_live(h, 1);
    }
    return !h->is_over && h->answered >= id && h->answer_status == 0;
}
