/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/print/config_print.h"

#include "broker/auth/users.h"
#include "broker/config/config_schema.h"
#include "broker/config/config_trust.h"
#include "wire/base/assert.h"
#include "wire/base/memstream.h"
#include "wire/config/config_format.h"

#include <stdlib.h>
#include <string.h>

#define WHERE_MAX 256u  /* of a place: a longer path is cut */
#define VALUES_MAX 128u /* of two values together */
#define CHANGE_MAX (WHERE_MAX + VALUES_MAX + AMB_CONFIG_PATH_MAX + 16u)

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

/* "limits.window 8M -> 1M (broker.conf:3)". Lists and secrets have their names alone. */
static void append_change(const struct amb_config_key *key, const struct amb_config *after,
                          const char *a, const char *b, char *list, size_t size)
{
    char change[CHANGE_MAX], where[WHERE_MAX];
    bool is_short = a != NULL && b != NULL && !key->secret && key->type != AMB_CONFIG_ELEMENTS &&
                    strlen(a) + strlen(b) < VALUES_MAX;
    amb_config_where(after, key->path, where, sizeof(where));
    if (is_short) {
        (void)snprintf(change, sizeof(change), "%s %s -> %s (%s)", key->path, a, b, where);
    } else {
        (void)snprintf(change, sizeof(change), "%s (%s)", key->path, where);
    }
    append_name(list, size, change);
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
        bool is_restart = keys[i].apply == AMB_CONFIG_RESTART;
        if (differs) {
            append_change(&keys[i], after, a, b, is_restart ? restart : live,
                          is_restart ? restart_size : live_size);
        }
        free(a);
        free(b);
    }
    /* Memory of topics is shared by groups, and clients have mapped it. */
    if (!amb_config_trust_is_same(before, after)) {
        append_name(restart, restart_size, "topics.trust_group");
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
