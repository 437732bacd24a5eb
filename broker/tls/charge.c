/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/tls/charge.h"

#include "wire/tls/tls.h"

static bool take(void *arg, size_t bytes)
{
    return amb_heap_go_on(arg, bytes);
}

static void give(void *arg, size_t bytes)
{
    amb_heap_give(arg, bytes);
}

bool amb_tls_charge_heap(struct amb_tls *tls, struct amb_heap_account *account)
{
    const struct amb_tls_charge charge = {.take = take, .give = give, .arg = account};
    return amb_tls_charge(tls, &charge);
}
