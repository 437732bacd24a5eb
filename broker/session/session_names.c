/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/session/session_names.h"

#include "broker/base/heap_account.h"

#include <stdlib.h>
#include <string.h>

/* With the two places in the subscription's map. */
static uint64_t name_heap(uint32_t len)
{
    return sizeof(struct amb_session_name) + len + AMB_HEAP_OVERHEAD + 2 * sizeof(void *);
}

static void name_free(struct amb_session_names *names, struct amb_session_name *name)
{
    amb_heap_give(names->heap, name_heap(name->len));
    free(name);
}

enum amb_status amb_session_name_create(struct amb_session_names *names, const char *text,
                                        uint32_t len, struct amb_session_name **out)
{
    if (!amb_heap_charge(names->heap, name_heap(len))) {
        return AMB_ELIMIT;
    }
    struct amb_session_name *made = malloc(sizeof(*made) + len);
    if (made == NULL) {
        amb_heap_give(names->heap, name_heap(len));
        return AMB_ENOMEM;
    }
    made->naming = 0;
    made->len = len;
    memcpy(made->name, text, len);
    amb_list_init(&made->of_session);
    *out = made;
    return AMB_OK;
}

void amb_session_name_drop(struct amb_session_names *names, struct amb_session_name *name)
{
    if (name->naming == 0) {
        name_free(names, name);
    } else {
        amb_list_push_back(&names->kept, &name->of_session);
    }
}

void amb_session_names_init(struct amb_session_names *names, struct amb_heap_account *heap)
{
    amb_list_init(&names->kept);
    names->heap = heap;
}

void amb_session_names_fini(struct amb_session_names *names)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&names->kept)) != NULL) {
        name_free(names, AMB_CONTAINER_OF(node, struct amb_session_name, of_session));
    }
}
