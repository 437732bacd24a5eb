/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/config.h"

#include "client/config/client_config.h"
#include "tools/common/shown.h"
#include "tools/ctl/broker_config.h"
#include "tools/ctl/config_ask.h"
#include "tools/ctl/config_lines.h"
#include "tools/ctl/connect.h"
#include "wire/base/memstream.h"
#include "wire/config/config_format.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Of --role, as the table has them. */
enum role {
    ROLE_CLIENT,
    ROLE_BROKER,
    ROLE_RUNNING,
};

struct wanted {
    enum role role;
    bool has_origin;
    bool are_defaults;    /* and nothing else is looked at */
    const char *config;   /* NULL: the role's own choice */
    char *const *options; /* of brokerd, NULL ends them */
};

/* The same that a program has whose options are those of this command line. */
static enum amb_status make_config(const struct amb_ctl *ctl, const struct wanted *wanted,
                                   char *error, size_t error_size, struct amb_client_config **out)
{
    const struct amb_client_option all[] = {
        {"client.url", "--url", ctl->url},
        {"client.credentials", "--credentials", ctl->credentials},
        {"client.name", "--client-name", ctl->client_name},
    };
    struct amb_client_option given[sizeof(all) / sizeof(all[0])];
    struct amb_client_source source = {.options = given};
    if (!wanted->are_defaults) {
        source.path = wanted->config != NULL ? wanted->config : amb_client_config_path();
        source.environment = (const char *const *)environ;
    }
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i].text != NULL && !wanted->are_defaults) {
            given[source.option_count++] = all[i];
        }
    }
    return amb_client_config_create(&source, error, error_size, out);
}

/* *out: as text, to be freed. */
static enum amb_exit print_client(const struct amb_ctl *ctl, const struct wanted *wanted,
                                  char **out)
{
    char error[AMB_CONFIG_ERROR_MAX];
    struct amb_client_config *config = NULL;
    enum amb_status status = make_config(ctl, wanted, error, sizeof(error), &config);
    if (status != AMB_OK) {
        amb_tool_error("config: %s", error);
        return status == AMB_EINVAL ? AMB_EXIT_DATA : AMB_EXIT_SOFTWARE;
    }
    size_t size;
    FILE *stream = open_memstream(out, &size);
    if (stream != NULL) {
        amb_config_rows_print(config->store, config, stream);
    }
    amb_client_config_destroy(&config);
    if (!amb_memstream_end(stream, out)) {
        amb_tool_error("config: no memory");
        return AMB_EXIT_SOFTWARE;
    }
    return AMB_EXIT_OK;
}

/* One line a key, as in a file; a group is in its name, so that each can be searched for. */
static void print_line(const struct amb_config_line *line, bool has_origin)
{
    (void)printf("%s = %.*s;", line->path, (int)line->value_len, line->value);
    if (has_origin) {
        (void)printf(" # %.*s", (int)line->origin_len, line->origin);
    }
    (void)fputc('\n', stdout);
}

/* JSON is UTF-8, and a file may have been written in something else. */
static json_t *pack_text(const char *text, size_t len)
{
    json_t *string = json_stringn(text, len);
    if (string != NULL) {
        return string;
    }
    char *plain = NULL;
    size_t size;
    FILE *stream = open_memstream(&plain, &size);
    if (stream == NULL) {
        return NULL;
    }
    amb_shown_put(stream, text, len, true);
    string = amb_memstream_end(stream, &plain) ? json_stringn(plain, size) : NULL;
    free(plain);
    return string;
}

static json_t *pack_line(const struct amb_config_line *line, bool has_origin)
{
    json_t *row = json_pack("{s:s, s:o}", "key", line->path, "value",
                            pack_text(line->value, line->value_len));
    if (row != NULL && has_origin) {
        (void)json_object_set_new(row, "origin", pack_text(line->origin, line->origin_len));
    }
    return row;
}

static enum amb_exit print(const struct amb_ctl *ctl, const struct wanted *wanted, const char *text)
{
    struct amb_config_lines lines = {.at = text};
    struct amb_config_line line;
    json_t *rows = json_array();
    size_t count = 0;
    for (; amb_config_lines_next(&lines, &line); count++) {
        if (ctl->is_json) {
            (void)json_array_append_new(rows, pack_line(&line, wanted->has_origin));
        } else {
            print_line(&line, wanted->has_origin);
        }
    }
    if (ctl->is_json) {
        amb_ctl_print(ctl, rows);
    } else {
        json_decref(rows);
    }
    if (count == 0 || *lines.at != '\0') {
        (void)fflush(stdout);
        amb_tool_error("config: brokerd is of another release, whose configuration is not "
                       "understood here");
        return AMB_EXIT_SOFTWARE;
    }
    return AMB_EXIT_OK;
}

/* Out of what children are given, however long a name is and whether it has a value. */
static void forget_variables(const char *prefix)
{
    char **kept = environ;
    for (char **at = environ; *at != NULL; at++) {
        if (strncmp(*at, prefix, strlen(prefix)) != 0) {
            *kept++ = *at;
        }
    }
    *kept = NULL;
}

/* Of a brokerd whose file is empty, and that sees no variable of its own. */
static enum amb_exit print_defaults(char **out)
{
    char path[64];
    int fd = memfd_create("no configuration", 0); /* Inherited by the child, which opens it. */
    if (fd < 0) {
        amb_tool_error("config: no memory");
        return AMB_EXIT_SOFTWARE;
    }
    forget_variables("AMBROKER_");
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    enum amb_exit code = amb_ctl_broker_config("config", path, NULL, out);
    (void)close(fd);
    return code;
}

static enum amb_exit show(const struct amb_ctl *ctl, const struct wanted *wanted)
{
    char *text = NULL;
    enum amb_exit code = wanted->role != ROLE_BROKER ? print_client(ctl, wanted, &text)
                         : wanted->are_defaults      ? print_defaults(&text)
                                                : amb_ctl_broker_config("config", wanted->config,
                                                                        wanted->options, &text);
    if (code == AMB_EXIT_OK) {
        code = print(ctl, wanted, text);
    }
    free(text);
    return code;
}

enum amb_exit amb_ctl_config(struct amb_ctl *ctl)
{
    const struct amb_cli_line *line = ctl->line;
    const struct wanted wanted = {
        .role = (enum role)amb_cli_word(line, "role", ROLE_CLIENT),
        .has_origin = amb_cli_has(line, "origin"),
        .are_defaults = amb_cli_has(line, "defaults"),
        .config = amb_cli_text(line, "config"),
        .options = line->args,
    };
    if (line->arg_count > 0 && wanted.role != ROLE_BROKER) {
        amb_tool_error("%s %.40s: options of brokerd go with --role broker", line->called,
                       line->args[0]);
        return AMB_EXIT_USAGE;
    }
    return wanted.role == ROLE_RUNNING
               ? amb_ctl_config_running(ctl, wanted.has_origin, wanted.are_defaults)
               : show(ctl, &wanted);
}
