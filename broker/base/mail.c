/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/base/mail.h"

#include "broker/base/fault.h"

#include "wire/base/assert.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum amb_status amb_inbox_init(struct amb_inbox *inbox, void *owner)
{
    amb_mpsc_init(&inbox->posted);
    atomic_init(&inbox->sleeping, 0);
    inbox->owner = owner;
    inbox->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return inbox->bell < 0 ? amb_status_from_errno(errno) : AMB_OK;
}

void amb_inbox_fini(struct amb_inbox *inbox)
{
    if (inbox->bell > 0) {
        (void)close(inbox->bell);
        inbox->bell = -1;
    }
}

void amb_mail_post(struct amb_inbox *to, struct amb_mail *mail, amb_mail_fn fn)
{
    amb_assert(fn != NULL);
    mail->fn = fn;
    (void)amb_mpsc_push(&to->posted, &mail->node);
    /* Partner: amb_inbox_arm, which sets sleeping and then looks at the stack. Both are
     * sequentially consistent read-modify-writes, so one of the two sees the other. */
    if (atomic_load(&to->sleeping) != 0 && atomic_exchange(&to->sleeping, 0) != 0) {
        uint64_t one = 1;
        /* Cannot fail but for a full counter, and then the bell is ringing anyway. */
        ssize_t written = write(to->bell, &one, sizeof(one));
        (void)written;
    }
}

unsigned amb_inbox_run(struct amb_inbox *inbox)
{
    unsigned done = 0;
    struct amb_mpsc_node *node = amb_mpsc_take_all(&inbox->posted);
    if (AMB_FAULT(ORDER_SWAPPED) && node != NULL && node->next != NULL) {
        struct amb_mpsc_node *second = node->next;
        node->next = second->next;
        second->next = node;
        node = second;
    }
    while (node != NULL) {
        struct amb_mpsc_node *next = node->next; /* fn may free or repost its mail */
        struct amb_mail *mail = (struct amb_mail *)(void *)node;
        mail->fn(mail, inbox->owner);
        node = next;
        done++;
    }
    return done;
}

bool amb_inbox_arm(struct amb_inbox *inbox)
{
    (void)atomic_exchange(&inbox->sleeping, 1);
    if (amb_mpsc_is_empty(&inbox->posted)) {
        return true;
    }
    atomic_store_explicit(&inbox->sleeping, 0, memory_order_relaxed);
    return false;
}

void amb_inbox_disarm(struct amb_inbox *inbox, bool rang)
{
    atomic_store_explicit(&inbox->sleeping, 0, memory_order_relaxed);
    if (rang) {
        uint64_t count;
        ssize_t got = read(inbox->bell, &count, sizeof(count));
        (void)got;
    }
}
