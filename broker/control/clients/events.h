/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events on $SYS topics, which anybody subscribes to like any other: "$SYS.>". Each is a JSON
 * object. Nobody reads them: they cost a comparison. A tenant sees its own; operators see all, and
 * the field `tenant` says whose each one is.
 *
 *   $SYS.client.come, $SYS.client.gone                    who, and why it has gone
 *   $SYS.tls.expiring                                     a file of TLS: expiry.h
 *   $SYS.queue.gone                                       its owner has lost a right: renew.h
 *   $SYS.quota.near, $SYS.quota.full                      of a user or a tenant: quotas.h
 *   $SYS.command                                          of an operator: ../admin/admin.h
 *   $SYS.dead_letter                                      of which topic: deadletter.h
 *   $SYS.sub.slow, $SYS.sub.recovered, $SYS.sub.lost      slow.h
 *   $SYS.sub.spill_begin, $SYS.sub.spill_end              the same
 *
 * They are at home on the first worker; a reader that does not keep up loses the oldest.
 *
 * Threads: the control thread. Memory: one order an event, AMB_EVENTS_MAX under way.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define AMB_EVENTS_MAX 1024u

struct amb_control;
struct json_t;

bool amb_events_are_wanted(const struct amb_control *control);
/* Publishes json, which is about that tenant, and whose reference it takes over; NULL, or without
 * room: nothing. AMB_TENANT_OPERATORS: for operators alone. */
void amb_events_publish(struct amb_control *control, uint32_t tenant, const char *topic,
                        struct json_t *json);
