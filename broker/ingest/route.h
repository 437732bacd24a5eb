/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage 3 of 6 (ingest ─► route ─► topic): a whole entry goes to its topic's home, and what becomes
 * of it goes back to its publisher.
 *
 *   publisher's worker                    topic's home
 *   amb_route ──────── hand-over ───────► append
 *   receipt (ACCEPTED, SETTLED) ◄──────── at once
 *   grant (WINDOW) ◄───────────────────── at once, or when the holding readers have caught up
 *
 * Where both are one worker these are plain calls. A quiet topic (directory.h) puts its
 * first entries aside before they are appended, until it is awake.
 * Threads: the shard's worker. Memory: the mail is embedded in the entry.
 */
#pragma once

#include "broker/base/mail.h"

struct amb_entry;
struct amb_shard;
struct amb_topic;

/* Takes over the caller's reference. home: index of the topic's worker. An entry whose status is
 * not AMB_OK already is not appended; its publisher is told. */
void amb_route(struct amb_shard *shard, struct amb_entry *entry, unsigned home);
/* From any thread: hands an entry over to its topic's home, as amb_route does. */
void amb_route_hand_over(struct amb_shard *home, struct amb_entry *entry);
/* A tally (tally.h) is at its end, at the publisher's worker: that one is told. */
void amb_route_confirmed(struct amb_mail *tally, void *owner);
/* The same of a batch that is traced, and of one that is traced alone. */
void amb_route_traced_confirmed(struct amb_mail *tally, void *owner);
void amb_route_traced(struct amb_mail *tally, void *owner);
/* All readers have their cursors: appends what a quiet topic has waiting. At home only. */
void amb_route_awake(struct amb_topic *topic);
/* Gives back the windows that may be given back now. At home only. */
void amb_route_grants(struct amb_topic *topic);
/* The same for all that is in the log, however deep it is: it is emptied next. */
void amb_route_grants_all(struct amb_topic *topic);
