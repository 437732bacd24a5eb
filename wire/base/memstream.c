/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/memstream.h"

#include <stdlib.h>

bool amb_memstream_end(FILE *stream, char **text)
{
    if (stream == NULL) {
        *text = NULL;
        return false;
    }
    bool is_whole = fflush(stream) == 0 && ferror(stream) == 0;
    is_whole = fclose(stream) == 0 && is_whole && *text != NULL;
    if (!is_whole) {
        free(*text);
        *text = NULL;
    }
    return is_whole;
}
