/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/config_spots.h"

#include <stdlib.h>
#include <string.h>

struct amb_config_spot {
    struct amb_config_spot *next;
    const char *list, *key;
    const char *name; /* of the element; NULL: it is being made */
    struct amb_config_place place;
};

void amb_config_spots_forget(struct amb_config_store *store, const char *list)
{
    struct amb_config_spot **at = &store->spots;
    store->spot_order = NULL;
    while (*at != NULL) {
        if (strcmp((*at)->list, list) == 0) {
            *at = (*at)->next; /* Its memory goes with the configuration. */
        } else {
            at = &(*at)->next;
        }
    }
}

void amb_config_spot_add(struct amb_config_store *store, const char *list, const char *key,
                         const struct amb_config_place *place)
{
    struct amb_config_spot *spot = amb_config_alloc(store, sizeof(*spot));
    store->spot_order = NULL;
    if (spot != NULL) {
        *spot = (struct amb_config_spot){store->spots, list, key, NULL, *place};
        store->spots = spot;
    }
}

void amb_config_spots_name(struct amb_config_store *store, const char *name)
{
    for (struct amb_config_spot *spot = store->spots; spot != NULL && spot->name == NULL;
         spot = spot->next) {
        spot->name = name;
    }
}

/* ---- by name ---- */

static int compare_with(const struct amb_config_spot *spot, const char *list, const char *name,
                        const char *key)
{
    int order = strcmp(spot->list, list);
    order = order != 0 ? order : strcmp(spot->name, name);
    return order != 0 ? order : strcmp(spot->key, key);
}

static int compare(const void *a, const void *b)
{
    const struct amb_config_spot *const *one = a, *const *other = b;
    return compare_with(*one, (*other)->list, (*other)->name, (*other)->key);
}

void amb_config_spots_order(struct amb_config_store *store)
{
    size_t count = 0;
    for (const struct amb_config_spot *spot = store->spots; spot != NULL; spot = spot->next) {
        count += spot->name != NULL;
    }
    const struct amb_config_spot **order = amb_config_alloc(store, (count + 1) * sizeof(*order));
    if (order == NULL) {
        return;
    }
    count = 0;
    for (const struct amb_config_spot *spot = store->spots; spot != NULL; spot = spot->next) {
        if (spot->name != NULL) {
            order[count++] = spot;
        }
    }
    qsort(order, count, sizeof(*order), compare);
    store->spot_order = order;
    store->spot_count = count;
}

static const struct amb_config_place *seek(const struct amb_config_store *store, const char *list,
                                           const char *name, const char *key)
{
    const struct amb_config_spot wanted = {.list = list, .key = key, .name = name};
    const struct amb_config_spot *one = &wanted;
    const struct amb_config_spot *const *found =
        bsearch(&one, store->spot_order, store->spot_count, sizeof(one), compare);
    return found == NULL ? NULL : &(*found)->place;
}

/* In no order: one after the other. */
static const struct amb_config_place *search(const struct amb_config_store *store, const char *list,
                                             const char *name, const char *key)
{
    for (const struct amb_config_spot *spot = store->spots; spot != NULL; spot = spot->next) {
        if (spot->name != NULL && compare_with(spot, list, name, key) == 0) {
            return &spot->place;
        }
    }
    return NULL;
}

const struct amb_config_place *amb_config_spot_find(const struct amb_config_store *store,
                                                    const char *list, const char *name,
                                                    const char *key)
{
    const struct amb_config_place *(*look)(const struct amb_config_store *, const char *,
                                           const char *, const char *) =
        store->spot_order != NULL ? seek : search;
    const struct amb_config_place *place = look(store, list, name, key);
    return place != NULL ? place : look(store, list, name, "");
}
