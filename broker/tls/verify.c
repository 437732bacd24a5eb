/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/tls/verify.h"

#include "broker/tls/handshaker.h"

static void verify_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_verify *verify = AMB_CONTAINER_OF(mail, struct amb_verify, mail);
    (void)owner;
    verify->is_good =
        amb_signature_verify(verify->key, verify->text, verify->text_len, verify->signature);
    amb_mail_post(verify->control, &verify->mail, verify->on_done);
}

void amb_verify_post(struct amb_verify *verify, struct amb_handshakers *handshakers)
{
    amb_mail_post(amb_handshakers_inbox(handshakers), &verify->mail, verify_arrived);
}
