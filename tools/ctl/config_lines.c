/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/config_lines.h"

#include <stdio.h>
#include <string.h>

#define MARK "; # " /* between value and origin */

static void skip_space(struct amb_config_lines *lines)
{
    lines->at += strspn(lines->at, " \n");
}

/* The end of a value; NULL: there is none. Quoted text may have the mark in it. */
static const char *find_mark(const char *text)
{
    bool is_quoted = false;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '\\' && is_quoted && at[1] != '\0') {
            at++;
        } else if (*at == '"') {
            is_quoted = !is_quoted;
        } else if (!is_quoted && strncmp(at, MARK, sizeof(MARK) - 1) == 0) {
            return at;
        }
    }
    return NULL;
}

/* False: it does not fit. */
static bool join(char out[AMB_CONFIG_LINES_PATH_MAX], const char *group, const char *name,
                 size_t len)
{
    int needed = snprintf(out, AMB_CONFIG_LINES_PATH_MAX, "%s%s%.*s", group,
                          group[0] == '\0' ? "" : ".", (int)len, name);
    return needed > 0 && (size_t)needed < AMB_CONFIG_LINES_PATH_MAX;
}

static void leave_group(struct amb_config_lines *lines)
{
    char *dot = strrchr(lines->group, '.');
    *(dot != NULL ? dot : lines->group) = '\0';
    lines->at += 2;
}

bool amb_config_lines_next(struct amb_config_lines *lines, struct amb_config_line *out)
{
    for (;;) {
        skip_space(lines);
        if (strncmp(lines->at, "};", 2) == 0) {
            leave_group(lines);
            continue;
        }
        size_t len = strcspn(lines->at, " \n");
        const char *equals = lines->at + len;
        if (len == 0 || strncmp(equals, " = ", 3) != 0 ||
            !join(out->path, lines->group, lines->at, len)) {
            return false;
        }
        lines->at = equals + 3;
        if (strncmp(lines->at, "{\n", 2) != 0) {
            break;
        }
        memcpy(lines->group, out->path, sizeof(lines->group));
        lines->at += 1;
    }
    const char *mark = find_mark(lines->at);
    if (mark == NULL) {
        return false;
    }
    out->value = lines->at;
    out->value_len = (size_t)(mark - lines->at);
    out->origin = mark + sizeof(MARK) - 1;
    out->origin_len = strcspn(out->origin, "\n");
    lines->at = out->origin + out->origin_len;
    return true;
}
