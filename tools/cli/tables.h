/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the three programs, and parts that their commands share.
 * Threads: any. Memory: constants.
 */
#pragma once

#include "tools/cli/cli.h"

extern const struct amb_cli_program amb_cli_broker_ctl;
extern const struct amb_cli_program amb_cli_broker_bench;
extern const struct amb_cli_program amb_cli_brokerd;

/* The word of --output, in each program. */
enum amb_cli_form {
    AMB_CLI_FORM_TABLE,
    AMB_CLI_FORM_JSON,
    AMB_CLI_FORM_JSONL, /* a row a line; of broker-bench there is none */
    AMB_CLI_FORM_CSV,   /* the same */
};
/* Of broker-ctl and brokerd: all of them. */
extern const struct amb_config_word amb_cli_form_words[];

#define AMB_CLI_ALIASES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The parts of broker-ctl's. */
extern const struct amb_cli_arg amb_cli_config_args[], amb_cli_local_args[], amb_cli_key_args[],
    amb_cli_tls_issue_args[], amb_cli_tls_renew_args[], amb_cli_user_name_args[],
    amb_cli_user_test_args[];
extern const struct amb_cli_option amb_cli_config_options[], amb_cli_address_options[],
    amb_cli_local_options[], amb_cli_key_new_options[], amb_cli_tls_options[],
    amb_cli_user_file_options[], amb_cli_user_change_options[];
extern const struct amb_cli_option amb_cli_pub_options[], amb_cli_sub_options[],
    amb_cli_request_options[], amb_cli_reply_options[];
extern const struct amb_cli_arg amb_cli_top_args[], amb_cli_report_args[];
extern const struct amb_cli_option amb_cli_top_options[], amb_cli_report_options[];
extern const struct amb_cli_arg amb_cli_check_args[], amb_cli_events_args[];
extern const struct amb_cli_option amb_cli_check_options[], amb_cli_events_options[],
    amb_cli_ping_options[];
