/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Health: would a restart help, and are clients let in?
 *
 * Threads of a broker are asked when somebody wants to know, and then each second for a minute. So
 * a caller who comes again within that time learns how long one has been silent.
 *
 * Threads: the observer. Memory: embedded.
 */
#pragma once

#include "broker/http/pulse.h"
#include "wire/codec/url.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_HEALTH_SILENT_NS INT64_C(10000000000)
#define AMB_HEALTH_REACH_NS INT64_C(1000000000) /* between two tries of the door */
#define AMB_HEALTH_WHY_MAX 128u

struct amb_broker_stats;

struct amb_health {
    struct amb_pulse pulse; /* [0]: the control thread, then the workers */
    int64_t wanted_ns;      /* somebody has asked, and threads are asked until then */
    int64_t next_ns;
    int64_t reach_ns; /* The door may be tried again from then on; */
    int reach_error;  /* until then this is what the last try said: 0, or errno. */
};

/* When it wants to be called again; INT64_MAX: nobody has asked. */
int64_t amb_health_turn(struct amb_health *health, int64_t now_ns);
/* Have all threads turned within AMB_HEALTH_SILENT_NS? Else `why` says which one has not. */
bool amb_health_is_good(struct amb_health *health, int64_t now_ns, char why[AMB_HEALTH_WHY_MAX]);
/* How long the slowest thread has not turned; asks all of them. */
int64_t amb_health_silence_ns(struct amb_health *health, int64_t now_ns);
/* Does the door take a connection of our own, does the control thread turn, and does no graceful
 * end go on? Else `why` has the reason. front: with its real port. The door is tried once a second,
 * whoever asks how often, and may take 100 ms for it. */
bool amb_health_is_ready(struct amb_health *health, const struct amb_broker_stats *stats,
                         const struct amb_url *front, int64_t now_ns, char why[AMB_HEALTH_WHY_MAX]);
