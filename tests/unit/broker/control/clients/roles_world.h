/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of rights: roles for the stepped control thread, beside the users of login_world.h.
 * Threads: the test's.
 */
#pragma once

#include "broker/config/config.h"
#include "tests/unit/broker/control/clients/login_world.h"

static struct amb_config *role_sources[16];
static unsigned role_source_count;

/* The control thread's configuration with the roles and quotas of that text, as of a reload. */
static inline void use_roles(const char *text)
{
    static struct amb_config changed[16];
    struct amb_control *control = stepped_control();
    char error[AMB_CONFIG_ERROR_MAX] = "";
    const struct amb_config_source source = {.text = text, .text_len = strlen(text)};
    assert_true(role_source_count < 16);
    struct amb_config **out = &role_sources[role_source_count];
    if (amb_config_create(&source, error, sizeof(error), out) != AMB_OK) {
        fail_msg("%s", error);
    }
    struct amb_config *config = &changed[role_source_count++];
    *config = *control->config;
    config->roles = (*out)->roles;
    config->quotas = (*out)->quotas;
    control->config = config;
}

/* Nobody is there any more. */
static inline int forget_roles(void **state)
{
    (void)state;
    while (role_source_count > 0) {
        amb_config_destroy(&role_sources[--role_source_count]);
    }
    return 0;
}
