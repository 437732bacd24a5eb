/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/confirm.h"

#include "tools/common/shown.h"
#include "tools/ctl/connect.h"
#include "tools/ctl/contexts.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define ANSWER_MAX 16u

/* "the broker URL"; the library alone knows which one a file or credentials name. */
static void name_broker(const struct amb_ctl *ctl, char *out, size_t size)
{
    const char *file = amb_ctl_variable("AMB_CONFIG");
    bool is_named = ctl->url != NULL || amb_ctl_variable("AMB_URL") != NULL;
    if (!is_named && file != NULL) {
        (void)snprintf(out, size, "the broker of %s", file);
    } else if (!is_named &&
               (ctl->credentials != NULL || amb_ctl_variable("AMB_CREDENTIALS") != NULL)) {
        (void)snprintf(out, size, "the broker of the credentials");
    } else {
        (void)snprintf(out, size, "the broker %s", amb_ctl_url(ctl));
    }
}

static void put(const char *text)
{
    amb_shown_put(stderr, text, strlen(text), false);
}

/* "kick 7: at the broker URL? [y/N] ", "kick --user u: ..." */
static bool ask(const struct amb_cli_line *line, const char *broker)
{
    char answer[ANSWER_MAX];
    bool has_user = amb_cli_option_named(line->command->options, "user") != NULL;
    const char *user = has_user ? amb_cli_text(line, "user") : NULL;
    (void)fputs("broker-ctl: ", stderr);
    put(line->called);
    for (size_t i = 0; i < line->arg_count; i++) {
        (void)fputc(' ', stderr);
        put(line->args[i]);
    }
    (void)fputs(user != NULL ? " --user " : "", stderr);
    put(user != NULL ? user : "");
    (void)fputs(": at ", stderr);
    put(broker);
    (void)fputs("? [y/N] ", stderr);
    (void)fflush(stderr);
    if (fgets(answer, sizeof(answer), stdin) == NULL) {
        (void)fputc('\n', stderr);
        return false;
    }
    answer[strcspn(answer, "\n")] = '\0';
    return strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0;
}

enum amb_exit amb_ctl_confirm(struct amb_ctl *ctl)
{
    const struct amb_cli_line *line = ctl->line;
    if (amb_cli_option_named(line->command->options, "yes") == NULL || amb_cli_has(line, "yes")) {
        return AMB_EXIT_OK;
    }
    enum amb_exit found = amb_ctl_use_context(ctl); /* Harmless once more. */
    if (found != AMB_EXIT_OK) {
        return found;
    }
    char broker[1024];
    name_broker(ctl, broker, sizeof(broker));
    if (isatty(STDIN_FILENO) == 0 || isatty(STDERR_FILENO) == 0) {
        amb_tool_error("%s: needs --yes without a terminal; it would be at %s", line->called,
                       broker);
        return AMB_EXIT_USAGE;
    }
    if (!ask(line, broker)) {
        amb_tool_error("%s: not confirmed, so nothing is done", line->called);
        return AMB_EXIT_USAGE;
    }
    return AMB_EXIT_OK;
}
