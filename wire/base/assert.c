/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/assert.h"
#include "wire/base/log.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void amb_assert_failed(const char *expression, const char *file, int line)
{
    amb_error("assertion failed: %s (%s:%d)", expression, file, line);
    /* Also where no sink is set, as in a program that uses libamb: dying without a word helps
     * nobody, and assert(3) writes there too. */
    char text[512];
    (void)snprintf(text, sizeof(text), "assertion failed: %s (%s:%d)", expression, file, line);
    amb_log_to_stderr(AMB_LOG_ERROR, text, NULL);
    abort();
}
