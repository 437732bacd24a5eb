/* SPDX-License-Identifier: Apache-2.0 */
#include "client/conn/inside.h"

#include <stddef.h>

static _Thread_local const struct amb_conn *inside;

const struct amb_conn *amb_callbacks_enter(const struct amb_conn *conn)
{
    const struct amb_conn *outer = inside;
    inside = conn;
    return outer;
}

void amb_callbacks_leave(const struct amb_conn *outer)
{
    inside = outer;
}

bool amb_callbacks_inside(const struct amb_conn *conn)
{
    return conn != NULL ? inside == conn : inside != NULL;
}
