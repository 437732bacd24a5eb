/* SPDX-License-Identifier: Apache-2.0 */
#include "client/python/src/dtype.h"

#include <string.h>

enum {
    INT,
    UINT,
    FLOAT,
    COMPLEX = 5,
    BOOL = 6
}; /* DLPack's */

const char *amb_py_format_of(const struct amb_tensor *tensor)
{
    static const struct {
        uint8_t code, bits;
        const char *format;
    } table[] = {{INT, 8, "b"},       {INT, 16, "h"},      {INT, 32, "i"},   {INT, 64, "q"},
                 {UINT, 8, "B"},      {UINT, 16, "H"},     {UINT, 32, "I"},  {UINT, 64, "Q"},
                 {FLOAT, 16, "e"},    {FLOAT, 32, "f"},    {FLOAT, 64, "d"}, {BOOL, 8, "?"},
                 {COMPLEX, 64, "Zf"}, {COMPLEX, 128, "Zd"}};
    for (size_t i = 0; tensor->lanes == 1 && i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].code == tensor->code && table[i].bits == tensor->bits) {
            return table[i].format;
        }
    }
    return NULL;
}

bool amb_py_dtype_of(const char *format, size_t itemsize, struct amb_tensor *tensor)
{
    static const struct {
        const char *codes;
        uint8_t code;
    } table[] = {{"bhilqn", INT}, {"BHILQN", UINT}, {"efd", FLOAT}, {"?", BOOL}};
    const char *code = format != NULL ? format : "B";
    if (*code == '@' || *code == '=' ||
        (*code == '<' && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)) {
        code++;
    }
    if (itemsize == 0 || itemsize > 16) {
        return false;
    }
    tensor->bits = (uint8_t)(8 * itemsize);
    tensor->lanes = 1;
    if (strcmp(code, "Zf") == 0 || strcmp(code, "Zd") == 0) {
        tensor->code = COMPLEX;
        return true;
    }
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (code[0] != '\0' && code[1] == '\0' && strchr(table[i].codes, code[0]) != NULL) {
            tensor->code = table[i].code;
            return true;
        }
    }
    return false;
}
