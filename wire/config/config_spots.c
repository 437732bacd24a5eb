/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/config_spots.h"

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

const struct amb_config_place *amb_config_spot_find(const struct amb_config_store *store,
                                                    const char *list, const char *name,
                                                    const char *key)
{
    const struct amb_config_place *of_element = NULL;
    for (const struct amb_config_spot *spot = store->spots; spot != NULL; spot = spot->next) {
        if (spot->name == NULL || strcmp(spot->list, list) != 0 || strcmp(spot->name, name) != 0) {
            continue;
        }
        if (strcmp(spot->key, key) == 0) {
            return &spot->place;
        }
        if (spot->key[0] == '\0') {
            of_element = &spot->place;
        }
    }
    return of_element;
}
