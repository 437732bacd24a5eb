/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/auth/numbers.h"

#include "broker/base/user.h"
#include "wire/base/array.h"
#include "wire/base/hash.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 64u

/* "tenant:name", and the number that it has. */
struct named {
    uint32_t number;
    char name[];
};

struct amb_auth_numbers {
    _Atomic uint32_t refs;
    pthread_mutex_t lock;
    struct amb_map *by_name; /* struct named */
    struct named **all;      /* by number - AMB_USER_NAMED */
    uint32_t count, room;
};

enum amb_status amb_auth_numbers_create(struct amb_auth_numbers **out)
{
    struct amb_auth_numbers *numbers = calloc(1, sizeof(*numbers));
    if (numbers == NULL || amb_map_create(&numbers->by_name) != AMB_OK) {
        free(numbers);
        return AMB_ENOMEM;
    }
    (void)pthread_mutex_init(&numbers->lock, NULL);
    atomic_init(&numbers->refs, 1);
    *out = numbers;
    return AMB_OK;
}

struct amb_auth_numbers *amb_auth_numbers_ref(struct amb_auth_numbers *numbers)
{
    (void)atomic_fetch_add_explicit(&numbers->refs, 1, memory_order_relaxed);
    return numbers;
}

void amb_auth_numbers_unref(struct amb_auth_numbers **numbers)
{
    struct amb_auth_numbers *all = *numbers;
    *numbers = NULL;
    /* Acquire: other owners have done with it before it is freed. */
    if (all == NULL || atomic_fetch_sub_explicit(&all->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (uint32_t i = 0; i < all->count; i++) {
        free(all->all[i]);
    }
    free(all->all);
    amb_map_destroy(&all->by_name);
    (void)pthread_mutex_destroy(&all->lock);
    free(all);
}

static bool make_room(struct amb_auth_numbers *numbers)
{
    void *reached = amb_array_reach(numbers->all, numbers->count, &numbers->room, FIRST_ROOM,
                                    sizeof(*numbers->all));
    numbers->all = reached != NULL ? reached : numbers->all;
    return reached != NULL;
}

static enum amb_status add(struct amb_auth_numbers *numbers, const char *name, size_t len,
                           uint32_t *out)
{
    if (numbers->count == AMB_AUTH_NUMBERS_MAX) {
        return AMB_ELIMIT;
    }
    struct named *named = make_room(numbers) ? malloc(sizeof(*named) + len + 1) : NULL;
    if (named == NULL || amb_map_put(numbers->by_name, name, len, named) != AMB_OK) {
        free(named);
        return AMB_ENOMEM;
    }
    memcpy(named->name, name, len + 1);
    *out = named->number = AMB_USER_NAMED + numbers->count;
    numbers->all[numbers->count++] = named;
    return AMB_OK;
}

enum amb_status amb_auth_numbers_take(struct amb_auth_numbers *numbers, const char *tenant,
                                      const char *name, uint32_t *out)
{
    char text[AMB_AUTH_NAME_MAX];
    int len = snprintf(text, sizeof(text), "%s:%s", tenant, name);
    if (len < 0 || (size_t)len >= sizeof(text)) {
        return AMB_EINVAL;
    }
    (void)pthread_mutex_lock(&numbers->lock);
    const struct named *known = amb_map_get(numbers->by_name, text, (size_t)len);
    enum amb_status status = AMB_OK;
    if (known != NULL) {
        *out = known->number;
    } else {
        status = add(numbers, text, (size_t)len, out);
    }
    (void)pthread_mutex_unlock(&numbers->lock);
    return status;
}

bool amb_auth_numbers_name(struct amb_auth_numbers *numbers, uint32_t number,
                           char out[AMB_AUTH_NAME_MAX])
{
    (void)pthread_mutex_lock(&numbers->lock);
    bool is_known = number >= AMB_USER_NAMED && number - AMB_USER_NAMED < numbers->count;
    if (is_known) {
        (void)snprintf(out, AMB_AUTH_NAME_MAX, "%s", numbers->all[number - AMB_USER_NAMED]->name);
    }
    (void)pthread_mutex_unlock(&numbers->lock);
    return is_known;
}

bool amb_auth_numbers_find(struct amb_auth_numbers *numbers, const char *name, uint32_t *out)
{
    (void)pthread_mutex_lock(&numbers->lock);
    const struct named *known = amb_map_get(numbers->by_name, name, strlen(name));
    if (known != NULL) {
        *out = known->number;
    }
    (void)pthread_mutex_unlock(&numbers->lock);
    return known != NULL;
}
