/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/config_words.h"

#include "client/include/amb/types.h"
#include "wire/codec/url.h"

const struct amb_config_word amb_config_slow_words[] = {
    {"block", AMB_SLOW_BLOCK, false},
    {"drop-oldest", AMB_SLOW_DROP_OLDEST, false},
    {"drop-newest", AMB_SLOW_DROP_NEWEST, false},
    {"latest", AMB_SLOW_LATEST, false},
    {"spill", AMB_SLOW_SPILL, false},
    {"disconnect", AMB_SLOW_DISCONNECT, false},
    {NULL, 0, false},
};

const struct amb_config_word amb_config_priority_words[] = {
    {"high", AMB_PRIORITY_HIGH, false},
    {"normal", AMB_PRIORITY_NORMAL, false},
    {"low", AMB_PRIORITY_LOW, false},
    {NULL, 0, false},
};

const struct amb_config_word amb_config_ack_words[] = {
    {"explicit", AMB_ACK_EXPLICIT, false},
    {"cumulative", AMB_ACK_CUMULATIVE, false},
    {NULL, 0, false},
};

const struct amb_config_word amb_config_confirm_words[] = {
    {"accepted", AMB_CONFIRM_ACCEPTED, false},
    {"delivered", AMB_CONFIRM_DELIVERED, false},
    {"durable", AMB_CONFIRM_DURABLE, true},
    {NULL, 0, false},
};

const struct amb_config_word amb_config_tempo_words[] = {
    {"at-once", AMB_TEMPO_AT_ONCE, false},
    {"original", AMB_TEMPO_ORIGINAL, false},
    {NULL, 0, false},
};

const struct amb_config_word amb_config_link_words[] = {
    {"ring", AMB_LINK_RING, false},
    {"stream", AMB_LINK_STREAM, false},
    {"ucx", AMB_LINK_UCX, false},
    {NULL, 0, false},
};

const struct amb_config_word amb_config_memory_words[] = {
    {"host", AMB_MEM_HOST, false},
    {"cuda", AMB_MEM_CUDA, false},
    {NULL, 0, false},
};
