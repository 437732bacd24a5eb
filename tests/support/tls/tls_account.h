/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An account that memory of TLS is charged to, with a limit.
 * Threads: owner. Memory: the caller's. More given back than was taken ends the test.
 */
#pragma once

#include "wire/tls/tls_buffer.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct tls_account {
    size_t bytes, limit;
};

static inline bool tls_account_take(void *arg, size_t bytes)
{
    struct tls_account *account = arg;
    bool has_room = account->bytes + bytes <= account->limit;
    account->bytes += has_room ? bytes : 0;
    return has_room;
}

static inline void tls_account_give(void *arg, size_t bytes)
{
    struct tls_account *account = arg;
    assert_true(account->bytes >= bytes);
    account->bytes -= bytes;
}

static inline struct amb_tls_charge tls_account_charge(struct tls_account *account)
{
    return (struct amb_tls_charge){
        .take = tls_account_take, .give = tls_account_give, .arg = account};
}
