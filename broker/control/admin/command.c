/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/admin/command.h"

#include "broker/config/config_schema.h"
#include "wire/base/text.h"

#include <stdio.h>
#include <string.h>

#define ALL 99u

static const struct {
    const char *words; /* that begin it */
    enum amb_command_kind kind;
    unsigned least, most; /* words behind these; most ALL: the rest is one text */
    const char *usage;
    bool wants_rows;
} forms[] = {
    {"kick --user", AMB_COMMAND_KICK_USER, 1, 1, "kick --user NAME [-- TEXT], of up to 150 bytes",
     false},
    {"kick", AMB_COMMAND_KICK, 1, 1,
     "kick CLIENT, or kick --user NAME; -- TEXT, of up to 150 bytes", false},
    {"block", AMB_COMMAND_BLOCK, 1, 1, "block USER", false},
    {"unblock", AMB_COMMAND_UNBLOCK, 1, 1, "unblock USER", false},
    {"durable rm", AMB_COMMAND_DURABLE_RM, 1, 2, "durable rm NAME [USER]", false},
    {"queue redeliver", AMB_COMMAND_REDELIVER, 1, 2, "queue redeliver NAME [USER]", false},
    {"topic rm", AMB_COMMAND_TOPIC_RM, 1, 2, "topic rm NAME [TENANT]", false},
    {"topic purge", AMB_COMMAND_TOPIC_PURGE, 1, 2, "topic purge NAME [TENANT]", false},
    {"reload", AMB_COMMAND_RELOAD, 0, 0, "reload takes no argument", false},
    {"drain", AMB_COMMAND_DRAIN, 0, 1, "drain [TIME], as 30s", false},
    {"config reload", AMB_COMMAND_RELOAD, 0, 0, "config reload takes no argument", true},
    {"config show", AMB_COMMAND_CONFIG_SHOW, 0, 0, "config show takes no argument", true},
    {"config defaults", AMB_COMMAND_CONFIG_DEFAULTS, 0, 0, "config defaults takes no argument",
     true},
    {"config diff", AMB_COMMAND_CONFIG_DIFF, 1, ALL, "config diff PATH, which begins with /", true},
    {"config test", AMB_COMMAND_CONFIG_TEST, 1, ALL, "config test PATH, which begins with /", true},
    {"config set", AMB_COMMAND_CONFIG_SET, 1, ALL, "config set KEY=VALUE", true},
    {"trace", AMB_COMMAND_TRACE, 3, 3, "trace PATTERN N TIME", false},
};
#define FORMS (sizeof(forms) / sizeof(forms[0]))

/* The rest behind these words, which is empty or begins with a space; NULL: it begins with others.
 */
static const char *behind(const char *query, const char *words)
{
    size_t len = strlen(words);
    return strncmp(query, words, len) == 0 && (query[len] == '\0' || query[len] == ' ')
               ? query + len
               : NULL;
}

/* One word behind a space. False: it is empty, or too long. */
static bool take_word(const char **rest, char *out, size_t most)
{
    const char *word = *rest + 1;
    size_t len = strcspn(word, " ");
    if (**rest != ' ' || len == 0 || len > most) {
        return false;
    }
    memcpy(out, word, len);
    out[len] = '\0';
    *rest = word + len;
    return true;
}

/* " -- TEXT" at the end of a kick. False: it is empty, too long, or has control characters. */
static bool take_text(const char **rest, struct amb_command *out)
{
    bool is_kick = out->kind == AMB_COMMAND_KICK || out->kind == AMB_COMMAND_KICK_USER;
    if (!is_kick || strncmp(*rest, " -- ", 4) != 0) {
        return true;
    }
    const char *text = *rest + 4;
    size_t len = strlen(text);
    if (len == 0 || len > AMB_COMMAND_TEXT_MAX || amb_text_has_control(text, len)) {
        return false;
    }
    memcpy(out->text, text, len + 1);
    *rest = text + len;
    return true;
}

/* All that is behind the words, as one text. False: it is none that the command takes. */
static bool take_rest(const char *rest, struct amb_command *out)
{
    bool is_of_path = out->kind != AMB_COMMAND_CONFIG_SET;
    size_t len = strlen(rest);
    if (len < 2 || len > sizeof(out->rest) || amb_text_has_control(rest + 1, len - 1)) {
        return false;
    }
    memcpy(out->rest, rest + 1, len);
    return is_of_path ? out->rest[0] == '/' : strchr(out->rest, '=') != NULL;
}

/* Of a drain. */
static bool take_limit(struct amb_command *out)
{
    out->limit_ns = AMB_COMMAND_NO_LIMIT;
    return out->word[0] == '\0' || (amb_text_parse_time(out->word, &out->limit_ns) &&
                                    out->limit_ns <= AMB_COMMAND_LIMIT_MAX_NS);
}

bool amb_command_parse(const char *query, struct amb_command *out, const char **why)
{
    *out = (struct amb_command){.kind = AMB_COMMAND_NONE};
    for (size_t i = 0; i < FORMS; i++) {
        const char *rest = behind(query, forms[i].words);
        if (rest == NULL) {
            continue;
        }
        unsigned count = 0;
        char *const words[] = {out->word, out->second, out->third};
        out->kind = forms[i].kind;
        out->wants_rows = forms[i].wants_rows;
        *why = forms[i].usage;
        if (forms[i].most == ALL) {
            return take_rest(rest, out);
        }
        while (*rest != '\0' && count < forms[i].most &&
               take_word(&rest, words[count],
                         count < 2 ? AMB_COMMAND_WORD_MAX : AMB_COMMAND_NUMBER_MAX)) {
            count++;
        }
        if (out->kind == AMB_COMMAND_DRAIN && !take_limit(out)) {
            return false;
        }
        return take_text(&rest, out) && *rest == '\0' && count >= forms[i].least;
    }
    return true;
}

/* Is it a key whose value may be shown? One that is misspelt may be meant for a secret. */
static bool is_shown(const char *path, size_t len)
{
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        if (strlen(keys[i].path) == len && strncmp(keys[i].path, path, len) == 0) {
            return !keys[i].secret;
        }
    }
    return false;
}

/* Bytes of the rest, without a value that may be a secret. */
static size_t shown_len(const struct amb_command *command)
{
    size_t len = strcspn(command->rest, "="), all = strlen(command->rest);
    bool is_whole =
        command->kind != AMB_COMMAND_CONFIG_SET || len == all || is_shown(command->rest, len);
    return is_whole ? all : len + 1;
}

bool amb_command_format(const struct amb_command *command, char *out, size_t size)
{
    for (size_t i = 0; i < FORMS; i++) {
        if (forms[i].kind == command->kind) {
            int len = snprintf(out, size, "%s%s%s%s%s%s%s%s%s%s%.*s", forms[i].words,
                               command->word[0] == '\0' ? "" : " ", command->word,
                               command->second[0] == '\0' ? "" : " ", command->second,
                               command->third[0] == '\0' ? "" : " ", command->third,
                               command->text[0] == '\0' ? "" : " -- ", command->text,
                               command->rest[0] == '\0' ? "" : " ", (int)shown_len(command),
                               command->rest);
            return len > 0 && (size_t)len < size;
        }
    }
    return false;
}

bool amb_command_is_of_config(const struct amb_command *command)
{
    return command->kind >= AMB_COMMAND_CONFIG_SHOW;
}

/* Rules for topics say who shares memory with whom: trust, trust_group. One that is left out of the
 * list says it, too. */
bool amb_command_is_of_trust(const struct amb_command *command)
{
    static const char *const keys[] = {
        "auth.", "http.",   "log.audit", "quotas", "memory.cuda.trust",
        "roles", "tenants", "tls.",      "topics", "transports."};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (command->kind == AMB_COMMAND_CONFIG_SET &&
            strncmp(command->rest, keys[i], strlen(keys[i])) == 0) {
            return true;
        }
    }
    return false;
}

bool amb_command_is_of_all(const struct amb_command *command)
{
    return command->kind == AMB_COMMAND_RELOAD || command->kind == AMB_COMMAND_DRAIN ||
           amb_command_is_of_config(command);
}
