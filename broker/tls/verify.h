/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures of users. A handshaker checks them, so that the control thread does not wait for it.
 *
 * Threads: the control thread posts, and its mail brings the answer. Memory: the caller's, who has
 * it back with that mail, also when the handshakers are stopped meanwhile.
 */
#pragma once

#include "broker/base/mail.h"
#include "wire/auth/signer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_handshakers;

struct amb_verify {
    struct amb_mail mail;
    struct amb_inbox *control; /* that is answered, */
    amb_mail_fn on_done;       /* ... by this function */
    uint8_t key[AMB_CREDENTIAL_KEY_SIZE], signature[AMB_SIGNATURE_SIZE];
    uint8_t text[AMB_LOGIN_TEXT_MAX];
    size_t text_len;
    bool is_good; /* the answer */
};

/* There is at least one handshaker. */
void amb_verify_post(struct amb_verify *verify, struct amb_handshakers *handshakers);
