/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/users_path.h"

#include "tools/ctl/broker_config.h"
#include "tools/ctl/config_lines.h"

#include <stdlib.h>
#include <string.h>

/* A text of libconfig, "..." with backslashes before quotes and themselves. NULL: it is none. */
static char *unquote(const char *value, size_t len)
{
    if (len < 2 || value[0] != '"' || value[len - 1] != '"') {
        return NULL;
    }
    char *out = malloc(len);
    size_t used = 0;
    for (size_t i = 1; out != NULL && i + 1 < len; i++) {
        if (value[i] == '\\' && i + 2 < len) {
            i++;
        }
        out[used++] = value[i];
    }
    if (out != NULL) {
        out[used] = '\0';
    }
    return out;
}

static char *find_in(const char *text)
{
    struct amb_config_lines lines = {.at = text};
    struct amb_config_line line;
    while (amb_config_lines_next(&lines, &line)) {
        if (strcmp(line.path, "auth.users") == 0) {
            return unquote(line.value, line.value_len);
        }
    }
    return NULL;
}

enum amb_exit amb_users_path_find(const char *file, const char *config, char **out)
{
    char *text = NULL;
    if (file == NULL) {
        enum amb_exit code = amb_ctl_broker_config("user", config, NULL, &text);
        if (code != AMB_EXIT_OK) {
            amb_tool_error("user: --file names the users file without a broker's configuration");
            return code;
        }
    }
    *out = file != NULL ? strdup(file) : find_in(text);
    free(text);
    if (*out == NULL || (*out)[0] == '\0') {
        free(*out);
        *out = NULL;
        amb_tool_error("user: the broker's configuration names no users file (auth.users); --file "
                       "names one");
        return AMB_EXIT_DATA;
    }
    return AMB_EXIT_OK;
}
