/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/admin.h"

#include "tools/ctl/connect.h"
#include "tools/ctl/counted.h"
#include "wire/counters/query.h"

#include <stdio.h>
#include <string.h>

/* Prints what the broker answers. FORBIDDEN: the answer is a row that says no. */
static enum amb_exit show(struct amb_ctl *ctl, const char *query)
{
    struct amb_msg *answer;
    int64_t timeout_ns = ctl->timeout_ns >= 0 ? ctl->timeout_ns : 5 * AMB_SEC;
    enum amb_status status = amb_admin(ctl->conn, query, timeout_ns, &answer);
    if (status != AMB_OK) {
        enum amb_exit failed = amb_ctl_fail(ctl, query, status);
        return status == AMB_ETIMEDOUT || status == AMB_ELOST
                   ? amb_ctl_counted_instead(ctl, query, failed)
                   : failed;
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
        amb_tool_error("%s: %" JSON_INTEGER_FORMAT " more %s not shown%s", query, not_shown,
                       not_shown == 1 ? "is" : "are",
                       amb_counters_query_is(query) ? " (server.counters_objects)" : "");
    }
    return code;
}

/* The words that options put behind a view's name; NULL: not given. */
struct words {
    const char *match, *sort, *top;
};

/* is_rows: the command takes --match, --sort and --top. False: an option is wrong. */
static bool take_options(struct amb_ctl *ctl, int argc, char **argv, bool is_rows,
                         struct words *words)
{
    static const struct option options[] = {AMB_CTL_OPTIONS,
                                            {"file", required_argument, NULL, 'F'},
                                            {"match", required_argument, NULL, 'm'},
                                            {"sort", required_argument, NULL, 's'},
                                            {"top", required_argument, NULL, 't'},
                                            {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "o:h", options, NULL)) != -1) {
        if (strchr("mst", option) != NULL && !is_rows) {
            amb_tool_error("%s takes no --match, --sort or --top", argv[0]);
            return false;
        }
        if (strchr("mst", option) != NULL && (optarg[0] == '\0' || strchr(optarg, ' ') != NULL)) {
            amb_tool_error("%s: '%.40s' is no word", argv[0], optarg);
            return false;
        }
        if (option == 'm') {
            words->match = optarg;
        } else if (option == 's') {
            words->sort = optarg;
        } else if (option == 't') {
            words->top = optarg;
        } else if (option == 'F') {
            ctl->file = optarg;
        } else if (!amb_ctl_option(ctl, option, optarg)) {
            return false;
        }
    }
    return true;
}

/* " KEY=WORD" behind the query, and its length then. */
static size_t add_word(char *query, size_t size, size_t len, const char *key, const char *word)
{
    if (word == NULL || len >= size) {
        return len;
    }
    return len + (size_t)snprintf(query + len, size - len, " %s=%s", key, word);
}

/* Asks with argv[0], its arguments from optind on, and the words; least, most: how many arguments
 * the command has. */
static enum amb_exit ask_words(struct amb_ctl *ctl, int argc, char **argv, int least, int most,
                               const struct words *words, char *query, size_t size)
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
    len = add_word(query, size, len, "match", words->match);
    len = add_word(query, size, len, "sort", words->sort);
    len = add_word(query, size, len, "top", words->top);
    if (len >= size) {
        amb_tool_error("%s: the argument is too long", argv[0]);
        return AMB_EXIT_USAGE;
    }
    if (ctl->file != NULL) {
        return amb_ctl_counted(ctl, ctl->file, query);
    }
    enum amb_exit code = amb_ctl_connect(ctl);
    if (code == AMB_EXIT_OK) {
        code = show(ctl, query);
    } else if (code == AMB_EXIT_UNAVAILABLE) {
        code = amb_ctl_counted_instead(ctl, query, code);
    }
    return amb_ctl_close(ctl, code);
}

/* The same behind the options. */
static enum amb_exit ask(struct amb_ctl *ctl, int argc, char **argv, int least, int most,
                         char *query, size_t size)
{
    struct words words = {0};
    if (!take_options(ctl, argc, argv, amb_counters_query_scope(argv[0]) != 0, &words)) {
        return AMB_EXIT_USAGE;
    }
    return ctl->is_help_wanted ? AMB_EXIT_OK
                               : ask_words(ctl, argc, argv, least, most, &words, query, size);
}

enum amb_exit amb_ctl_admin(struct amb_ctl *ctl, int argc, char **argv)
{
    char query[32];
    return ask(ctl, argc, argv, 0, 0, query, sizeof(query));
}

enum amb_exit amb_ctl_topics(struct amb_ctl *ctl, int argc, char **argv)
{
    char query[1024];
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
    const struct words none = {0};
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
        return ask_words(ctl, argc, argv, 1, 1, &none, query, sizeof(query));
    }
    if (optind < argc) {
        amb_tool_error("kick: a client, or --user NAME");
        return AMB_EXIT_USAGE;
    }
    optind = 1;
    return ask_words(ctl, 2, words, 1, 1, &none, query, sizeof(query));
}
