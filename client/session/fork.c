/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork(): the child inherits nothing but handles that say EFORKED. Its copies of the descriptors
 * are closed at once, so that the broker sees the end of the parent and not of its last child.
 * Mappings are not inherited at all (MADV_DONTFORK), and the CUDA driver is closed to a child
 * whose parent had begun with it (wire/mem/cuda_device.c).
 */
#include "client/session/fork.h"

#include "client/conn/conn.h"
#include "client/memory/aside.h"
#include "client/memory/later.h"
#include "client/session/life.h"

/* The only state of the library that is not a connection's: the list of them, for fork. */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct amb_list_node registry = {&registry, &registry};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    (void)pthread_mutex_lock(&registry_lock);
    amb_later_lock();
    amb_asides_lock();
}

static void after_fork_parent(void)
{
    amb_asides_unlock();
    amb_later_unlock();
    (void)pthread_mutex_unlock(&registry_lock);
}

static void after_fork_child(void)
{
    AMB_LIST_FOR_EACH (node, &registry) {
        struct amb_conn *conn = AMB_CONTAINER_OF(node, struct amb_conn, registry);
        atomic_fetch_or_explicit(&conn->trouble, AMB_TROUBLE_FORKED, memory_order_relaxed);
        if (conn->link != NULL && !conn->link_state.is_closing) { /* Else its number is free. */
            int fd = amb_link_fd(conn->link);
            amb_conn_close_fd(&fd);
        }
        if (conn->notify.user_fd != conn->notify.event_fd) {
            amb_conn_close_fd(&conn->notify.user_fd);
        }
        amb_conn_close_fd(&conn->control.fd);
        amb_conn_close_fd(&conn->control.passed_fd);
        amb_conn_close_fd(&conn->link_state.epoll_fd);
        amb_conn_close_fd(&conn->driver.wake_fd);
        amb_conn_close_fd(&conn->io.wake_fd);
        amb_conn_close_fd(&conn->notify.event_fd);
        amb_conn_close_fd(&conn->notify.timer_fd);
    }
    amb_asides_unlock();
    amb_later_unlock();
    (void)pthread_mutex_unlock(&registry_lock);
}

static void install(void)
{
    (void)pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

void amb_fork_register(struct amb_conn *conn)
{
    (void)pthread_once(&once, install);
    (void)pthread_mutex_lock(&registry_lock);
    amb_list_push_back(&registry, &conn->registry);
    (void)pthread_mutex_unlock(&registry_lock);
}

void amb_fork_unregister(struct amb_conn *conn)
{
    (void)pthread_mutex_lock(&registry_lock);
    amb_list_remove(&conn->registry);
    (void)pthread_mutex_unlock(&registry_lock);
}
