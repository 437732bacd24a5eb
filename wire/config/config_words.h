/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words that both configurations and command lines have, each list in one place: a word that is new
 * there is known everywhere.
 * Threads: any. Memory: constants; a row without a word ends each list.
 */
#pragma once

#include "wire/config/config_key.h"

extern const struct amb_config_word amb_config_slow_words[];     /* enum amb_slow */
extern const struct amb_config_word amb_config_priority_words[]; /* enum amb_priority */
extern const struct amb_config_word amb_config_ack_words[];      /* enum amb_ack */
extern const struct amb_config_word amb_config_confirm_words[];  /* enum amb_confirm */
extern const struct amb_config_word amb_config_tempo_words[];    /* enum amb_tempo */
extern const struct amb_config_word amb_config_link_words[];     /* enum amb_link_kind */
extern const struct amb_config_word amb_config_memory_words[];   /* enum amb_mem */
