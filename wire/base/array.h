/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that double when they are full. The caller has the array, the count of elements in use,
 * and the count that there is room for. Threads: one at a time. Memory: of malloc, the caller's.
 */
#pragma once

#include <stdint.h>
#include <stdlib.h>

/* The array, perhaps at another place, with room for one more than `count`; *room says for how
 * many. `first`: the room of one that is NULL. `size`: of an element, in bytes. NULL: no memory,
 * and nothing has changed. */
static inline void *amb_array_reach(void *array, uint32_t count, uint32_t *room, uint32_t first,
                                    size_t size)
{
    if (count < *room) {
        return array;
    }
    uint32_t grown = *room == 0 ? first : 2 * *room;
    void *moved = realloc(array, grown * size);
    *room = moved == NULL ? *room : grown;
    return moved;
}
