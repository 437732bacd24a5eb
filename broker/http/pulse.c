/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/http/pulse.h"

#include "wire/base/assert.h"
#include "wire/base/list.h"

static void probe_read(struct amb_mail *mail, void *owner)
{
    struct amb_pulse_probe *probe = AMB_CONTAINER_OF(mail, struct amb_pulse_probe, mail);
    (void)owner;
    /* Release, with the acquire of amb_pulse_ask: the mail is free to be sent again. */
    atomic_store_explicit(&probe->is_waiting, false, memory_order_release);
}

void amb_pulse_add(struct amb_pulse *pulse, struct amb_inbox *to)
{
    amb_assert(pulse->count < AMB_PULSE_THREADS_MAX);
    struct amb_pulse_probe *probe = &pulse->probes[pulse->count++];
    probe->to = to;
    atomic_init(&probe->is_waiting, false);
}

void amb_pulse_ask(struct amb_pulse *pulse, int64_t now_ns)
{
    for (unsigned i = 0; i < pulse->count; i++) {
        struct amb_pulse_probe *probe = &pulse->probes[i];
        if (!atomic_load_explicit(&probe->is_waiting, memory_order_acquire)) {
            probe->asked_ns = now_ns;
            atomic_store_explicit(&probe->is_waiting, true, memory_order_relaxed);
            amb_mail_post(probe->to, &probe->mail, probe_read);
        }
    }
}

void amb_pulse_end(struct amb_pulse *pulse)
{
    pulse->count = 0;
}

int64_t amb_pulse_silence_ns(const struct amb_pulse *pulse, unsigned threads, int64_t now_ns,
                             unsigned *thread)
{
    int64_t longest = 0;
    *thread = 0;
    for (unsigned i = 0; i < threads; i++) {
        const struct amb_pulse_probe *probe = &pulse->probes[i];
        bool is_waiting = atomic_load_explicit(&probe->is_waiting, memory_order_relaxed);
        if (is_waiting && now_ns - probe->asked_ns > longest) {
            longest = now_ns - probe->asked_ns;
            *thread = i;
        }
    }
    return longest;
}
