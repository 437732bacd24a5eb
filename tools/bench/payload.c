/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/payload.h"

#include "wire/base/assert.h"

#include <string.h>

#define WORD sizeof(uint64_t)

void amb_payload_write(void *data, size_t size, uint64_t word, bool is_touch)
{
    amb_assert(size >= AMB_PAYLOAD_MIN);
    unsigned char *bytes = data;
    uint64_t tail = ~word;
    memcpy(bytes, &word, WORD);
    if (is_touch) {
        /* Sizes are not multiples of a word in general: the last index ends before the tail. */
        size_t count = (size - 2 * WORD) / WORD;
        for (size_t i = 0; i < count; i++) {
            uint64_t value = word + i;
            memcpy(bytes + (i + 1) * WORD, &value, WORD);
        }
    }
    memcpy(bytes + size - WORD, &tail, WORD);
}

bool amb_payload_check(const void *data, size_t size, size_t expected_size, bool is_touch,
                       uint64_t *word)
{
    const unsigned char *bytes = data;
    if (size != expected_size || size < AMB_PAYLOAD_MIN) {
        return false;
    }
    uint64_t head;
    uint64_t tail;
    memcpy(&head, bytes, WORD);
    memcpy(&tail, bytes + size - WORD, WORD);
    if (tail != ~head) {
        return false;
    }
    if (is_touch) {
        uint64_t wrong = 0;
        size_t count = (size - 2 * WORD) / WORD;
        /* Without a branch, so that it runs at the speed of memory. */
        for (size_t i = 0; i < count; i++) {
            uint64_t value;
            memcpy(&value, bytes + (i + 1) * WORD, WORD);
            wrong |= value ^ (head + i);
        }
        if (wrong != 0) {
            return false;
        }
    }
    *word = head;
    return true;
}

/* Fletcher's: a sum of the words, and a sum of all such sums on the way. */
uint64_t amb_payload_sum(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t sum = size, sums = 0;
    for (size_t i = 0; i + WORD <= size; i += WORD) {
        uint64_t value;
        memcpy(&value, bytes + i, WORD);
        sum += value;
        sums += sum;
    }
    if (size % WORD != 0) {
        uint64_t value = 0;
        memcpy(&value, bytes + size - size % WORD, size % WORD);
        sum += value;
        sums += sum;
    }
    return sum ^ (sums << 32 | sums >> 32);
}
