/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls/tls_words.h"

#include "wire/tls/tls_state.h"

#include <openssl/err.h>
#include <stdio.h>

#define ALERT_OF_REASON 1000 /* SSL_R_..._ALERT_x is that and the alert's number */
#define ALERTS 256

/* The alert that the peer has sent; -1: none. */
static int alert_of(unsigned long error)
{
    int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
    return reason >= ALERT_OF_REASON && reason < ALERT_OF_REASON + ALERTS ? reason - ALERT_OF_REASON
                                                                          : -1;
}

/* By an alert: a status, and a sentence about its sender. */
static const struct {
    int alert;
    enum amb_status status;
    const char *text;
} alerts[] = {
    {TLS1_AD_PROTOCOL_VERSION, AMB_EUNREACHABLE, "does not speak TLS 1.3"},
    {SSL3_AD_HANDSHAKE_FAILURE, AMB_EUNREACHABLE, "has no suite or group in common with us"},
    {TLS1_AD_NO_APPLICATION_PROTOCOL, AMB_EUNREACHABLE, "is no door of ambroker"},
    {TLS13_AD_CERTIFICATE_REQUIRED, AMB_EAUTH, "wants a certificate, and there is none"},
    {SSL3_AD_BAD_CERTIFICATE, AMB_EAUTH, "does not take our certificate"},
    {SSL3_AD_UNSUPPORTED_CERTIFICATE, AMB_EAUTH, "does not take our certificate"},
    {SSL3_AD_CERTIFICATE_UNKNOWN, AMB_EAUTH, "does not take our certificate"},
    {SSL3_AD_CERTIFICATE_REVOKED, AMB_EAUTH, "does not take our certificate: it is revoked"},
    {SSL3_AD_CERTIFICATE_EXPIRED, AMB_EAUTH, "does not take our certificate: it has expired"},
    {TLS1_AD_UNKNOWN_CA, AMB_EAUTH, "does not know the authority of our certificate"},
    {TLS1_AD_ACCESS_DENIED, AMB_EAUTH, "does not take our certificate"},
};

static const char *peer_of(const struct amb_tls *tls)
{
    return tls->is_server ? "the client" : "the broker";
}

static enum amb_status explain_alert(struct amb_tls *tls, int alert)
{
    for (size_t i = 0; i < sizeof(alerts) / sizeof(alerts[0]); i++) {
        if (alerts[i].alert == alert) {
            (void)snprintf(tls->why, sizeof(tls->why), "%s %s", peer_of(tls), alerts[i].text);
            return alerts[i].status;
        }
    }
    (void)snprintf(tls->why, sizeof(tls->why), "%s has ended TLS: alert %d", peer_of(tls), alert);
    return AMB_EUNREACHABLE;
}

static enum amb_status explain_reason(struct amb_tls *tls, unsigned long error)
{
    const char *reason = ERR_reason_error_string(error);
    long verified = SSL_get_verify_result(tls->ssl);
    if (tls->is_server && verified != X509_V_OK) {
        (void)snprintf(tls->why, sizeof(tls->why), "the client's certificate does not do: %.120s",
                       X509_verify_cert_error_string(verified));
        return AMB_EAUTH;
    }
    (void)snprintf(tls->why, sizeof(tls->why), "TLS has failed: %.160s",
                   reason == NULL ? "no reason is known" : reason);
    return AMB_EPROTO;
}

void amb_tls_explain_failure(struct amb_tls *tls)
{
    unsigned long error = ERR_peek_error(); /* the first one: the others follow from it */
    if (tls->why[0] == '\0') {
        int alert = alert_of(error);
        tls->refusal = alert >= 0 ? explain_alert(tls, alert) : explain_reason(tls, error);
    }
    ERR_clear_error();
}

/* The peer has gone before the handshake was done. */
static enum amb_status explain_end(struct amb_tls *tls)
{
    if (tls->is_server) {
        (void)snprintf(tls->why, sizeof(tls->why), "the client has gone");
        return AMB_ELOST;
    }
    (void)snprintf(tls->why, sizeof(tls->why),
                   tls->was_heard ? "the broker closed the connection during the TLS handshake"
                                  : "the broker closed the connection at the first byte of TLS: is "
                                    "it a tcp:// listener?");
    return AMB_EUNREACHABLE;
}

enum amb_status amb_tls_explain_handshake(struct amb_tls *tls)
{
    unsigned long error = ERR_peek_error();
    int alert = alert_of(error);
    enum amb_status status = AMB_EUNREACHABLE;
    if (tls->why[0] != '\0') {
        /* The check of a certificate has said it. */
    } else if (amb_tls_is_plain(tls)) {
        (void)snprintf(tls->why, sizeof(tls->why),
                       tls->is_server ? "the client does not speak TLS"
                                      : "the broker does not speak TLS: is it a tcp:// listener?");
    } else if (alert >= 0) {
        status = explain_alert(tls, alert);
    } else if (error == 0 && (tls->end != TLS_OPEN || tls->is_mute)) {
        status = explain_end(tls);
    } else {
        status = explain_reason(tls, error);
    }
    ERR_clear_error();
    return status;
}
