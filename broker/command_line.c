/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/command_line.h"

#include "wire/base/assert.h"
#include "wire/base/text.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPTION_DEV = 256,
    OPTION_LISTEN,
    OPTION_PRINT_CONFIG,
    OPTION_UNTIL_EOF,
};

static const struct option long_options[] = {
    {"config", required_argument, NULL, 'c'},
    {"dev", no_argument, NULL, OPTION_DEV},
    {"listen", required_argument, NULL, OPTION_LISTEN},
    {"option", required_argument, NULL, 'o'},
    {"test-config", no_argument, NULL, 't'},
    {"print-config", no_argument, NULL, OPTION_PRINT_CONFIG},
    {"until-eof", no_argument, NULL, OPTION_UNTIL_EOF},
    {"version", no_argument, NULL, 'v'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

void amb_command_line_usage(FILE *out)
{
    (void)fputs(
        "usage: brokerd [--config FILE] [--dev] [--listen URL]... [-o KEY=VALUE]...\n"
        "  -c, --config FILE  configuration (default $AMB_CONFIG, else\n"
        "                     " AMB_COMMAND_LINE_CONFIG_DEFAULT "; none with --dev)\n"
        "      --dev          for this user on this machine: a socket under\n"
        "                     $XDG_RUNTIME_DIR or /tmp, memory on demand, loopback trusted\n"
        "      --listen URL   unix:///path, tcp://host:port or tcp://eth0:port, in place of the "
        "configured ones\n"
        "  -o KEY=VALUE       one key of the configuration, as server.workers=2\n"
        "      --until-eof    end gracefully when standard input ends: the program that started\n"
        "                     it holds the other end of the pipe\n"
        "  -t, --test-config  check the configuration and end\n"
        "      --print-config show all keys, their values and where they came from\n"
        "  -v, --version      show the release and end\n"
        "  -h, --help         show this and end\n"
        "Signals: TERM, INT, USR2 end gracefully (TERM twice at once), HUP reads the\n"
        "configuration again. Exit status: 0 ended as asked, 1 failed, 64 wrong usage,\n"
        "69 address in use or socket not possible, 78 wrong configuration.\n",
        out);
}

static void apply(struct amb_command_line *line, int code, const char *value)
{
    switch (code) {
    case 'c':
        line->config = value;
        break;
    case 'o':
        line->settings[line->setting_count++] = value;
        break;
    case 't':
        line->action = AMB_COMMAND_LINE_TEST_CONFIG;
        break;
    case 'v':
        line->action = AMB_COMMAND_LINE_VERSION;
        break;
    case 'h':
        line->action = AMB_COMMAND_LINE_HELP;
        break;
    case OPTION_DEV:
        line->dev = true;
        break;
    case OPTION_LISTEN:
        line->listen[line->listen_count++] = value;
        break;
    case OPTION_UNTIL_EOF:
        line->until_eof = true;
        break;
    case OPTION_PRINT_CONFIG:
        line->action = AMB_COMMAND_LINE_PRINT_CONFIG;
        break;
    default:
        break;
    }
}

/* The argument that getopt_long has just refused. */
static enum amb_status refuse(char **argv, bool is_missing, char *error, size_t error_size)
{
    char shown[64];
    if (is_missing) {
        (void)snprintf(error, error_size, "%s needs a value",
                       amb_text_show(argv[optind - 1], shown, sizeof(shown)));
    } else if (optopt != 0 && optopt < 256) {
        (void)snprintf(error, error_size, "unknown option '-%c'",
                       optopt > 0x20 && optopt < 0x7f ? optopt : '?');
    } else {
        (void)snprintf(error, error_size, "unknown or incomplete option '%s'",
                       amb_text_show(argv[optind - 1], shown, sizeof(shown)));
    }
    return AMB_EINVAL;
}

static enum amb_status parse(struct amb_command_line *line, int argc, char **argv, char *error,
                             size_t error_size)
{
    char shown[64];
    opterr = 0;
    optind = 0; /* glibc: start afresh, also in tests that parse several times */
    for (;;) {
        int code = getopt_long(argc, argv, ":c:o:tvh", long_options, NULL);
        if (code == -1) {
            break;
        }
        if (code == '?' || code == ':') {
            return refuse(argv, code == ':', error, error_size);
        }
        apply(line, code, optarg);
    }
    if (optind < argc) {
        (void)snprintf(error, error_size, "unexpected argument '%s'",
                       amb_text_show(argv[optind], shown, sizeof(shown)));
        return AMB_EINVAL;
    }
    for (size_t i = 0; i < line->setting_count; i++) {
        if (strchr(line->settings[i], '=') == NULL) {
            (void)snprintf(error, error_size, "-o takes KEY=VALUE, not '%s'",
                           amb_text_show(line->settings[i], shown, sizeof(shown)));
            return AMB_EINVAL;
        }
    }
    return AMB_OK;
}

enum amb_status amb_command_line_init(struct amb_command_line *line, int argc, char **argv,
                                      char *error, size_t error_size)
{
    amb_assert(argc >= 0 && error_size > 0);
    memset(line, 0, sizeof(*line));
    line->listen = calloc((size_t)argc + 1, sizeof(char *));
    line->settings = calloc((size_t)argc + 1, sizeof(char *));
    if (line->listen == NULL || line->settings == NULL) {
        (void)snprintf(error, error_size, "no memory for the command line");
        amb_command_line_fini(line);
        return AMB_ENOMEM;
    }
    enum amb_status status = parse(line, argc, argv, error, error_size);
    if (status != AMB_OK) {
        amb_command_line_fini(line);
        return status;
    }
    if (line->config == NULL && !line->dev) {
        const char *both_roles = secure_getenv("AMB_CONFIG");
        bool is_named = both_roles != NULL && both_roles[0] != '\0';
        line->config = is_named ? both_roles : AMB_COMMAND_LINE_CONFIG_DEFAULT;
    }
    return AMB_OK;
}

void amb_command_line_fini(struct amb_command_line *line)
{
    free(line->listen);
    free(line->settings);
    memset(line, 0, sizeof(*line));
}
