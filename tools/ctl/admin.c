/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/admin.h"

#include "tools/ctl/connect.h"

#include <stdio.h>
#include <string.h>

/* Prints what the broker answers. FORBIDDEN: the answer is a row that says no. */
static enum amb_exit show(struct amb_ctl *ctl, const char *query)
{
    struct amb_msg *answer;
    int64_t timeout_ns = ctl->timeout_ns >= 0 ? ctl->timeout_ns : 5 * AMB_SEC;
    enum amb_status status = amb_admin(ctl->conn, query, timeout_ns, &answer);
    if (status != AMB_OK) {
        return amb_ctl_fail(ctl, query, status);
    }
    json_error_t error;
    json_t *value = json_loadb(amb_msg_data(answer), amb_msg_size(answer), JSON_DECODE_ANY, &error);
    amb_msg_release(answer);
    if (value == NULL) {
        amb_tool_error("%s: the broker's answer is not JSON: %s", query, error.text);
        return AMB_EXIT_SOFTWARE;
    }
    const char *word = json_string_value(json_object_get(json_array_get(value, 0), "answer"));
    enum amb_exit code = word != NULL && strcmp(word, "no") == 0 ? AMB_EXIT_FORBIDDEN : AMB_EXIT_OK;
    json_int_t not_shown = json_integer_value(json_object_get(value, "not_shown"));
    if (!ctl->is_json) {
        (void)json_object_del(value, "not_shown");
    }
    amb_ctl_print(ctl, value);
    if (not_shown > 0) {
        (void)fflush(stdout);
        amb_tool_error("%s: %" JSON_INTEGER_FORMAT " more rows are not shown%s", query, not_shown,
                       strncmp(query, "topics", 6) == 0 ? "; broker-ctl topics PATTERN shows fewer"
                                                        : "");
    }
    return code;
}

/* Asks with argv[0] and the words from optind on; least, most: how many the command has. */
static enum amb_exit ask_words(struct amb_ctl *ctl, int argc, char **argv, int least, int most,
                               char *query, size_t size)
{
    if (argc - optind > most) {
        amb_tool_error("%s takes no argument '%.40s'", argv[0], argv[optind + most]);
        return AMB_EXIT_USAGE;
    }
    if (argc - optind < least) {
        amb_tool_error("%s needs %d more arguments", argv[0], least - (argc - optind));
        return AMB_EXIT_USAGE;
    }
    size_t len = (size_t)snprintf(query, size, "%s", argv[0]);
    for (int i = optind; i < argc && len < size; i++) {
        len += (size_t)snprintf(query + len, size - len, " %s", argv[i]);
    }
    if (len >= size) {
        amb_tool_error("%s: the argument is too long", argv[0]);
        return AMB_EXIT_USAGE;
    }
    enum amb_exit code = amb_ctl_connect(ctl);
    if (code == AMB_EXIT_OK) {
        code = show(ctl, query);
    }
    return amb_ctl_close(ctl, code);
}

/* The same behind the options. */
static enum amb_exit ask(struct amb_ctl *ctl, int argc, char **argv, int least, int most,
                         char *query, size_t size)
{
    static const struct option options[] = {AMB_CTL_OPTIONS, {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "o:h", options, NULL)) != -1) {
        if (!amb_ctl_option(ctl, option, optarg)) {
            return AMB_EXIT_USAGE;
        }
    }
    return ctl->is_help_wanted ? AMB_EXIT_OK : ask_words(ctl, argc, argv, least, most, query, size);
}

enum amb_exit amb_ctl_admin(struct amb_ctl *ctl, int argc, char **argv)
{
    char query[32];
    return ask(ctl, argc, argv, 0, 0, query, sizeof(query));
}

enum amb_exit amb_ctl_topics(struct amb_ctl *ctl, int argc, char **argv)
{
    char query[320];
    return ask(ctl, argc, argv, 0, 1, query, sizeof(query));
}

enum amb_exit amb_ctl_durable(struct amb_ctl *ctl, int argc, char **argv)
{
    char query[128];
    return ask(ctl, argc, argv, 2, 3, query, sizeof(query));
}

enum amb_exit amb_ctl_user_test(struct amb_ctl *ctl, int argc, char **argv)
{
    char query[400];
    return ask(ctl, argc, argv, 4, 4, query, sizeof(query));
}

enum amb_exit amb_ctl_order_of(struct amb_ctl *ctl, int argc, char **argv)
{
    char query[320];
    return ask(ctl, argc, argv, 1, 1, query, sizeof(query));
}

enum amb_exit amb_ctl_kick(struct amb_ctl *ctl, int argc, char **argv)
{
    enum {
        OPT_USER = 256,
    };
    static const struct option options[] = {
        AMB_CTL_OPTIONS, {"user", required_argument, NULL, OPT_USER}, {NULL, 0, NULL, 0}};
    char query[320], user[] = "kick --user", *words[2] = {user, NULL};
    int option;
    while ((option = getopt_long(argc, argv, "o:h", options, NULL)) != -1) {
        if (option == OPT_USER) {
            words[1] = optarg;
        } else if (!amb_ctl_option(ctl, option, optarg)) {
            return AMB_EXIT_USAGE;
        }
    }
    if (ctl->is_help_wanted) {
        return AMB_EXIT_OK;
    }
    if (words[1] == NULL) {
        return ask_words(ctl, argc, argv, 1, 1, query, sizeof(query));
    }
    if (optind < argc) {
        amb_tool_error("kick: a client, or --user NAME");
        return AMB_EXIT_USAGE;
    }
    optind = 1;
    return ask_words(ctl, 2, words, 1, 1, query, sizeof(query));
}
