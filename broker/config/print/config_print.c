/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/print/config_print.h"

#include "broker/auth/users.h"
#include "broker/config/config_schema.h"
#include "wire/base/assert.h"
#include "wire/base/memstream.h"
#include "wire/config/config_format.h"

#include <stdlib.h>
#include <string.h>

void amb_config_print(const struct amb_config *config, FILE *out)
{
    amb_config_rows_print(config->store, config, out);
}

/* Adds ", name"; once something did not fit, the list ends in "...". */
static void append_name(char *list, size_t size, const char *name)
{
    static const char cut[] = "...";
    size_t len = strlen(list);
    if (len >= 3 && strcmp(list + len - 3, cut) == 0) {
        return;
    }
    /* Room for ", ..." stays behind every name. */
    const char *comma = len == 0 ? "" : ", ";
    bool fits = len + strlen(comma) + strlen(name) + sizeof(", ...") <= size;
    (void)snprintf(list + len, size - len, "%s%s", comma, fits ? name : cut);
}

/* Heap text of a value, so that all types compare alike; NULL without memory. */
static char *value_text(const struct amb_config_key *key, const struct amb_config *config)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) {
        return NULL;
    }
    struct amb_config_key shown = *key;
    shown.secret = false;
    amb_config_value_print(&shown, config, stream);
    return amb_memstream_end(stream, &text) ? text : NULL;
}

void amb_config_diff(const struct amb_config *before, const struct amb_config *after, char *restart,
                     size_t restart_size, char *live, size_t live_size)
{
    amb_assert(restart_size > 8 && live_size > 8);
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    restart[0] = live[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (!amb_config_has_field(&keys[i])) {
            continue;
        }
        char *a = value_text(&keys[i], before), *b = value_text(&keys[i], after);
        bool differs = a == NULL || b == NULL || strcmp(a, b) != 0;
        free(a);
        free(b);
        if (differs && keys[i].apply == AMB_CONFIG_RESTART) {
            append_name(restart, restart_size, keys[i].path);
        } else if (differs) {
            append_name(live, live_size, keys[i].path);
        }
    }
    /* Files whose names have stayed. */
    if (!amb_tls_context_is_same(before->tls.context, after->tls.context) &&
        strstr(live, "tls.") == NULL) {
        append_name(live, live_size, "files of tls");
    }
    if (!amb_auth_users_is_same(before->auth.users, after->auth.users) &&
        strstr(live, "auth.users") == NULL) {
        append_name(live, live_size, "auth.users");
    }
}
