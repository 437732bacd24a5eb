/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a file of a context: taken, or refused with its line and nothing that drives a
 * terminal. */
#include "tests/fuzz/fuzz.h"
#include "tools/ctl/context.h"
#include "wire/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char why[AMB_CONTEXT_WHY_MAX] = "";
    struct amb_context context;
    char *text = fuzz_text(data, len);
    size_t end = strlen(text);
    if (amb_context_parse(text, "F", &context, why)) {
        const char *const values[] = {context.url, context.credentials, context.client_name};
        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
            amb_assert(values[i] == NULL || (values[i] > text && values[i] < text + end));
            amb_assert(values[i] == NULL || values[i][0] != '\0');
        }
        amb_context_fini(&context);
    } else {
        amb_assert(strncmp(why, "F:", 2) == 0);
        for (const char *at = why; *at != '\0'; at++) {
            amb_assert((unsigned char)*at >= 0x20 && *at != 0x7f);
        }
    }
    return 0;
}
