/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/config_schema_rule.h"

#include "broker/config/config_trust.h"
#include "wire/base/clock.h"
#include "wire/codec/expect.h"
#include "wire/config/config_words.h"

#define KIB (UINT64_C(1) << 10)
#define TIB (UINT64_C(1) << 40)
#define MS ((uint64_t)AMB_NS_PER_MS)
#define HOUR (3600 * (uint64_t)AMB_NS_PER_SEC)
#define RULE(member) offsetof(struct amb_topic_rule, member)

static const struct amb_config_word forever_words[] = {{"forever", AMB_CONFIG_TIME_FOREVER, false},
                                                       {NULL, 0, false}};
static const struct amb_config_word full_words[] = {{"block", AMB_FULL_BLOCK, false},
                                                    {"drop-oldest", AMB_FULL_DROP_OLDEST, false},
                                                    {"reject", AMB_FULL_REJECT, false},
                                                    {NULL, 0, false}};
static const struct amb_config_word trust_words[] = {{"auto", AMB_TRUST_AUTO, false},
                                                     {"publisher", AMB_TRUST_PUBLISHER, false},
                                                     {"verify", AMB_TRUST_VERIFY, false},
                                                     {NULL, 0, false}};
static const struct amb_config_word topic_gpu_words[] = {{"stage", AMB_TOPIC_GPU_STAGE, false},
                                                         {"reject", AMB_TOPIC_GPU_REJECT, false},
                                                         {NULL, 0, false}};
static const struct amb_config_word prefer_words[] = {
    {"credit", AMB_PREFER_CREDIT, false}, {"near", AMB_PREFER_NEAR, false}, {NULL, 0, false}};
static const struct amb_config_word expect_words[] = {{"any", 0, false},
                                                      {"ring", AMB_EXPECT_RING, false},
                                                      {"zero-copy", AMB_EXPECT_ZERO_COPY, false},
                                                      {"rdma", AMB_EXPECT_RDMA, false},
                                                      {"nvlink", AMB_EXPECT_NVLINK, false},
                                                      {NULL, 0, false}};

static const struct amb_config_key rule_keys[] = {
    {.path = "match",
     .type = AMB_CONFIG_TEXT,
     .apply = AMB_CONFIG_LIVE,
     .offset = RULE(match),
     .example_value = "\"camera.>\"",
     .min = 1,
     .max = 255,
     .help = "Pattern of the topics: * is one token, > one or more at the end."},
    {.path = "full",
     .type = AMB_CONFIG_WORD,
     .apply = AMB_CONFIG_LIVE,
     .offset = RULE(full),
     .default_text = "block",
     .words = full_words,
     .help = "What happens when the topic's log is full."},
    {.path = "max_messages",
     .type = AMB_CONFIG_COUNT,
     .apply = AMB_CONFIG_LIVE,
     .offset = RULE(max_messages),
     .default_text = "0",
     .max = 1U << 31,
     .help = "Messages the log holds; 0: max_bytes alone limits it."},
    {.path = "max_bytes",
     .type = AMB_CONFIG_SIZE,
     .apply = AMB_CONFIG_LIVE,
     .offset = RULE(max_bytes),
     .default_text = "64M",
     .min = 64 * KIB,
     .max = 4 * TIB,
     .help = "Bytes the log holds; one message always fits, however large."},
    {.path = "slow",
     .type = AMB_CONFIG_WORD,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = RULE(slow),
     .default_text = "block",
     .words = amb_config_slow_words,
     .help = "What happens to a subscriber that does not keep up and does not say itself."},
    {.path = "slow_block",
     .type = AMB_CONFIG_TIME,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = RULE(slow_block_ns),
     .default_text = "forever",
     .words = forever_words,
     .max = 24 * HOUR,
     .help = "How long slow = \"block\" holds publishers back before the oldest are dropped."},
    {.path = "spill_max",
     .type = AMB_CONFIG_SIZE,
     .apply = AMB_CONFIG_LIVE,
     .offset = RULE(spill_max),
     .default_text = "64M",
     .max = 4 * TIB,
     .help = "Bytes that wait in host memory for subscribers with slow = \"spill\" alone, beside "
             "max_bytes, on each worker; then these lose their oldest."},
    {.path = "trust",
     .type = AMB_CONFIG_WORD,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = RULE(trust),
     .default_text = "auto",
     .words = trust_words,
     .help =
         "Leased batches are read in memory that their publisher can still write: publisher, by "
         "all; auto, by subscribers of its own user, and copied once another user's could map "
         "them; verify, by nobody, and copied when they come."},
    {.path = "trust_group",
     .type = AMB_CONFIG_TEXT,
     .offset = RULE(trust_group),
     .default_text = AMB_TRUST_GROUP_DEFAULT,
     .min = 1,
     .max = AMB_TRUST_GROUP_NAME_MAX,
     .help =
         "Topics whose messages share memory. A subscriber maps that memory only if its user may "
         "read all topics of the group; others get copies. Topics without this key are one "
         "group. There are at most 64."},
    {.path = "gpu",
     .type = AMB_CONFIG_WORD,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = RULE(gpu),
     .default_text = "stage",
     .words = topic_gpu_words,
     .help = "What is published from a GPU and cannot stay on it (no pool, no trust, another host) "
             "goes by host memory, or is rejected."},
    {.path = "prefer",
     .type = AMB_CONFIG_WORD,
     .apply = AMB_CONFIG_LIVE,
     .offset = RULE(prefer),
     .default_text = "credit",
     .words = prefer_words,
     .help = "Which member of a group gets a message without a key: credit, the one with the most "
             "credit left; near, of those with half of their credit left the one nearest to the "
             "payload: in place on its GPU, then on this host (ring, Unix socket), then by TCP or "
             "UCX."},
    {.path = "expect",
     .type = AMB_CONFIG_WORD,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = RULE(expect),
     .default_text = "any",
     .words = expect_words,
     .help = "The way that payloads take, or a publisher or subscription is refused with what is "
             "missing: ring, shared memory; zero-copy, read and written in place; rdma, InfiniBand "
             "or RoCE; nvlink, from GPU to GPU, and gpu is reject then."},
    {.path = "retain.messages",
     .type = AMB_CONFIG_COUNT,
     .apply = AMB_CONFIG_LIVE,
     .offset = RULE(retain.messages),
     .default_text = "0",
     .max = 1U << 31,
     .help = "History kept for readers to come: the newest so many messages; 0: no such limit. "
             "With none of the three nothing is kept. It gives way to a full log or memory."},
    {.path = "retain.bytes",
     .type = AMB_CONFIG_SIZE,
     .apply = AMB_CONFIG_LIVE,
     .offset = RULE(retain.bytes),
     .default_text = "0",
     .max = 4 * TIB,
     .help = "... the newest so many bytes, whole batches; 0: no such limit."},
    {.path = "retain.age",
     .type = AMB_CONFIG_TIME,
     .apply = AMB_CONFIG_LIVE,
     .offset = RULE(retain.age_ns),
     .default_text = "0",
     .max = 8760 * HOUR,
     .help = "... what came within so long; 0: no such limit."},
    {.path = "retain.keys",
     .type = AMB_CONFIG_COUNT,
     .apply = AMB_CONFIG_LIVE,
     .offset = RULE(retain.keys),
     .default_text = "0",
     .max = AMB_KEYS_MAX,
     .help = "Beside that the newest message of each key, of so many keys at most, in max_bytes: "
             "start = last then gives these, and slow = latest leaves out what has a newer one of "
             "its key. 0: none."},
    {.path = "ttl",
     .type = AMB_CONFIG_TIME,
     .apply = AMB_CONFIG_LIVE,
     .offset = RULE(ttl_ns),
     .default_text = "forever",
     .words = forever_words,
     .min = MS,
     .max = 8760 * HOUR,
     .help = "How old a message may become and still be delivered; its publisher may say less."},
    {.path = "durable",
     .not_yet = true,
     .example_value = "true",
     .help = "Messages survive the broker."},
};

const struct amb_config_key *amb_config_rule_keys(size_t *count)
{
    *count = sizeof(rule_keys) / sizeof(rule_keys[0]);
    return rule_keys;
}

const struct amb_config_elements amb_config_rules_kind = {
    .keys = amb_config_rule_keys,
    .size = sizeof(struct amb_topic_rule),
    .name = "match",
    .name_offset = RULE(match),
    .name_help = "a pattern as \"camera.>\"",
    .example = "{ match = \"a.>\"; }",
    .check = amb_config_trust_check,
};
