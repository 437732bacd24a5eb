/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the doctor, looked up by the id of their check. */
#pragma once

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* The finding of that check; NULL: there is none. */
static inline const char *found(const json_t *rows, const char *id)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (strcmp(json_string_value(json_object_get(row, "id")), id) == 0) {
            assert_true(json_string_value(json_object_get(row, "fix"))[0] != '\0');
            return json_string_value(json_object_get(row, "finding"));
        }
    }
    return NULL;
}

/* The rows have that finding, with that text in it. Gives the rows back. */
static inline void expect_found(json_t *rows, const char *id, const char *part)
{
    const char *finding = found(rows, id);
    if (finding == NULL || strstr(finding, part) == NULL) {
        fail_msg("%s: '%s', wanted '%s'", id, finding != NULL ? finding : "(none)", part);
    }
    json_decref(rows);
}

static inline void expect_none(json_t *rows, const char *id)
{
    const char *finding = found(rows, id);
    if (finding != NULL) {
        fail_msg("%s: '%s'", id, finding);
    }
    json_decref(rows);
}
