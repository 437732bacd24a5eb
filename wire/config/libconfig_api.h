/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libconfig, loaded when the first text in its syntax is read and not before. So a program that
 * uses libamb without a configuration file has no libconfig in memory, and needs none.
 *
 * Its structs are its header's, so it is the library of the build's own header that is loaded.
 * Threads: any; loading happens once.
 */
#pragma once

#include <libconfig.h>
#include <stddef.h>

/* ADD(name): one line a function. */
#define AMB_LIBCONFIG_API(ADD)                                                                     \
    ADD(config_init)                                                                               \
    ADD(config_destroy)                                                                            \
    ADD(config_read_string)                                                                        \
    ADD(config_set_include_dir)                                                                    \
    ADD(config_setting_get_bool)                                                                   \
    ADD(config_setting_get_elem)                                                                   \
    ADD(config_setting_get_int64)                                                                  \
    ADD(config_setting_get_string)                                                                 \
    ADD(config_setting_length)

struct amb_libconfig_api {
#define AMB_LIBCONFIG_MEMBER(name) __typeof__(&(name)) name;
    AMB_LIBCONFIG_API(AMB_LIBCONFIG_MEMBER)
#undef AMB_LIBCONFIG_MEMBER
};

/* NULL: it cannot be loaded; *why (static) then says why. */
const struct amb_libconfig_api *amb_libconfig(const char **why);
