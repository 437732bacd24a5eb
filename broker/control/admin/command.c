/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/admin/command.h"

#include "wire/base/text.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *words; /* that begin it */
    enum amb_command_kind kind;
    unsigned least, most; /* words behind these */
    const char *usage;
} forms[] = {
    {"kick --user", AMB_COMMAND_KICK_USER, 1, 1, "kick --user NAME [-- TEXT], of up to 150 bytes"},
    {"kick", AMB_COMMAND_KICK, 1, 1,
     "kick CLIENT, or kick --user NAME; -- TEXT, of up to 150 bytes"},
    {"block", AMB_COMMAND_BLOCK, 1, 1, "block USER"},
    {"unblock", AMB_COMMAND_UNBLOCK, 1, 1, "unblock USER"},
    {"durable rm", AMB_COMMAND_DURABLE_RM, 1, 2, "durable rm NAME [USER]"},
    {"queue redeliver", AMB_COMMAND_REDELIVER, 1, 2, "queue redeliver NAME [USER]"},
    {"topic rm", AMB_COMMAND_TOPIC_RM, 1, 2, "topic rm NAME [TENANT]"},
    {"topic purge", AMB_COMMAND_TOPIC_PURGE, 1, 2, "topic purge NAME [TENANT]"},
    {"reload", AMB_COMMAND_RELOAD, 0, 0, "reload takes no argument"},
    {"drain", AMB_COMMAND_DRAIN, 0, 0, "drain takes no argument"},
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
static bool take_word(const char **rest, char *out)
{
    const char *word = *rest + 1;
    size_t len = strcspn(word, " ");
    if (**rest != ' ' || len == 0 || len > AMB_COMMAND_WORD_MAX) {
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

bool amb_command_parse(const char *query, struct amb_command *out, const char **why)
{
    *out = (struct amb_command){.kind = AMB_COMMAND_NONE};
    for (size_t i = 0; i < FORMS; i++) {
        const char *rest = behind(query, forms[i].words);
        if (rest == NULL) {
            continue;
        }
        unsigned count = 0;
        out->kind = forms[i].kind;
        while (*rest != '\0' && count < forms[i].most &&
               take_word(&rest, count == 0 ? out->word : out->second)) {
            count++;
        }
        *why = forms[i].usage;
        return take_text(&rest, out) && *rest == '\0' && count >= forms[i].least;
    }
    return true;
}

bool amb_command_format(const struct amb_command *command, char *out, size_t size)
{
    for (size_t i = 0; i < FORMS; i++) {
        if (forms[i].kind == command->kind) {
            int len = snprintf(out, size, "%s%s%s%s%s%s%s", forms[i].words,
                               command->word[0] == '\0' ? "" : " ", command->word,
                               command->second[0] == '\0' ? "" : " ", command->second,
                               command->text[0] == '\0' ? "" : " -- ", command->text);
            return len > 0 && (size_t)len < size;
        }
    }
    return false;
}

bool amb_command_is_of_all(const struct amb_command *command)
{
    return command->kind == AMB_COMMAND_RELOAD || command->kind == AMB_COMMAND_DRAIN;
}
