/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings that UCX is told, for dask_test.py. Each line of standard input is a question, and
 * each answer is one line. No UCX is loaded for it.
 *
 *   question  ROLE RELEASE ROOT TEXT  broker or client; 1.22.0; a folder with sys and proc; the
 *                                     text of a configuration. Tabs are between them
 *   answer    refused REASON
 *             told NAME=VALUE...      tabs are between them
 */
#include "broker/config/config.h"
#include "client/config/client_config.h"
#include "wire/link/ucxlib/ucx_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 8192u

struct question {
    const char *role, *release, *root, *text;
};

/* A configuration of either role; one of them is NULL. */
struct answer {
    struct amb_config *broker;
    struct amb_client_config *client;
    struct amb_transports transports;
    char error[AMB_CONFIG_ERROR_MAX];
};

static enum amb_status read_broker(const struct question *question, struct answer *answer)
{
    static const char *const options[] = {"listen=unix:///nowhere", "server.workers=1"};
    const struct amb_config_source source = {.text = question->text,
                                             .text_len = strlen(question->text),
                                             .options = options,
                                             .option_count = 2};
    enum amb_status status =
        amb_config_create(&source, answer->error, sizeof(answer->error), &answer->broker);
    if (status != AMB_OK) {
        return status;
    }
    return amb_transports_choose(&answer->transports, &answer->broker->transports,
                                 answer->broker->store, question->root, answer->error,
                                 sizeof(answer->error));
}

static enum amb_status read_client(const struct question *question, struct answer *answer)
{
    const struct amb_client_source source = {.text = question->text,
                                             .text_len = strlen(question->text)};
    enum amb_status status =
        amb_client_config_create(&source, answer->error, sizeof(answer->error), &answer->client);
    if (status != AMB_OK) {
        return status;
    }
    return amb_transports_choose(&answer->transports, &answer->client->transports,
                                 answer->client->store, question->root, answer->error,
                                 sizeof(answer->error));
}

/* "1.22.0" */
static uint32_t parse_release(const char *text)
{
    uint32_t release = 0;
    for (unsigned i = 0; i < 3; i++) {
        char *rest;
        release = release << 8 | (uint32_t)strtoul(text, &rest, 10);
        text = *rest == '.' ? rest + 1 : rest;
    }
    return release;
}

static void tell(const struct question *question, const struct answer *answer)
{
    const struct amb_ucx_options *options = &answer->transports.options;
    char tls[AMB_UCX_TLS_MAX];
    (void)amb_ucx_lanes(options, parse_release(question->release), tls);
    (void)printf("told\tTLS=%s\tNET_DEVICES=%s", tls, options->net_devices);
    if (options->port_range != NULL) {
        (void)printf("\tTCP_PORT_RANGE=%s", options->port_range);
    }
    for (size_t i = 0; i < options->setting_count; i++) {
        (void)printf("\t%s=%s", options->settings[i].name, options->settings[i].value);
    }
    (void)printf("\n");
}

static void answer_question(const struct question *question)
{
    static struct answer answer;
    memset(&answer, 0, sizeof(answer));
    enum amb_status status = strcmp(question->role, "broker") == 0 ? read_broker(question, &answer)
                                                                   : read_client(question, &answer);
    if (status == AMB_OK) {
        tell(question, &answer);
    } else {
        (void)printf("refused\t%s\n", answer.error);
    }
    (void)fflush(stdout);
    amb_config_destroy(&answer.broker);
    amb_client_config_destroy(&answer.client);
}

int main(void)
{
    static char line[LINE_MAX_BYTES];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        char *rest = line, *parts[4];
        line[strcspn(line, "\n")] = '\0';
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
            parts[i] = strsep(&rest, "\t");
            if (parts[i] == NULL) {
                (void)fprintf(stderr, "told: ROLE RELEASE ROOT TEXT\n");
                return 64;
            }
        }
        const struct question question = {parts[0], parts[1], parts[2], parts[3]};
        answer_question(&question);
    }
    return 0;
}
