/* SPDX-License-Identifier: Apache-2.0 */
/* A libucs, or a libucm, that does nothing. */
__attribute__((visibility("default"))) const char *ucs_status_string(void);
const char *ucs_status_string(void)
{
    return "";
}
