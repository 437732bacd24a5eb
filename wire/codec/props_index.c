/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/codec/props_index.h"

#include "wire/base/hash.h"

#include <pthread.h>
#include <string.h>

#define CELLS_MIN 16u

static uint8_t secret[16];
static pthread_once_t secret_once = PTHREAD_ONCE_INIT;

static void secret_make(void)
{
    amb_random_bytes(secret, sizeof(secret));
}

uint32_t amb_props_name_hash(const char *name, size_t len)
{
    (void)pthread_once(&secret_once, secret_make);
    return (uint32_t)amb_siphash24(secret, name, len);
}

uint32_t amb_props_index_cells(const uint8_t *blob, uint32_t len, uint32_t *count)
{
    struct amb_prop_view view;
    size_t pos = 0;
    uint32_t cells = CELLS_MIN;
    *count = 0;
    while (amb_props_next(blob, len, &pos, &view)) {
        (*count)++;
    }
    while (cells < 2 * *count) {
        cells *= 2;
    }
    return cells;
}

static bool is_at(const struct amb_props_index *index, const struct amb_props_cell *cell,
                  const char *name, size_t name_len, struct amb_prop_view *out)
{
    size_t pos = cell->at - 1;
    return pos < index->len && amb_props_next(index->blob, index->len, &pos, out) &&
           out->name_len == name_len && memcmp(out->name, name, name_len) == 0;
}

/* The place of that name, or the free one where it would be put. */
static struct amb_props_cell *cell_of(const struct amb_props_index *index, const char *name,
                                      size_t name_len, uint32_t hash, struct amb_prop_view *out)
{
    for (uint32_t i = hash;; i++) { /* At least half of them are free. */
        struct amb_props_cell *cell = &index->cells[i & index->mask];
        if (cell->at == 0 || (cell->hash == hash && is_at(index, cell, name, name_len, out))) {
            return cell;
        }
    }
}

void amb_props_index_fill(struct amb_props_index *index)
{
    struct amb_prop_view view, same;
    size_t pos = 0, at = 0;
    while (amb_props_next(index->blob, index->len, &pos, &view)) {
        uint32_t hash = amb_props_name_hash(view.name, view.name_len);
        struct amb_props_cell *cell = cell_of(index, view.name, view.name_len, hash, &same);
        if (cell->at == 0) { /* Else it comes a second time: the first one counts. */
            *cell = (struct amb_props_cell){.hash = hash, .at = (uint32_t)at + 1};
        }
        at = pos;
    }
}

bool amb_props_index_find(const struct amb_props_index *index, const char *name, size_t name_len,
                          uint32_t hash, struct amb_prop_view *out)
{
    return cell_of(index, name, name_len, hash, out)->at != 0;
}
