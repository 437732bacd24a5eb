/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/auth/crypto.h"

#include <openssl/crypto.h>

bool amb_crypto_begin(void)
{
    return OSSL_LIB_CTX_get0_global_default() != NULL;
}
