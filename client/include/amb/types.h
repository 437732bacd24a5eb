/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <amb/types.h>: the vocabulary that programs, libamb and brokerd share: one status type and the
 * enumerations whose values also travel on the wire. Plain constants; no functions, no state.
 * Values never change meaning and are never reused.
 */
#ifndef AMB_TYPES_H
#define AMB_TYPES_H

#ifdef __cplusplus
extern "C" {
#endif

/* Every call answers one of these. Grouped by who is hurt: see amb_status_scope(). */
enum amb_status {
    AMB_OK = 0,
    /* The call: nothing happened, nothing else is hurt. */
    AMB_EAGAIN = -1,     /* not now, and the call may not wait */
    AMB_ETIMEDOUT = -2,  /* the time given has passed */
    AMB_ESTOPPED = -3,   /* amb_stop() was called */
    AMB_EINVAL = -4,     /* an argument is wrong */
    AMB_ESTATE = -5,     /* not in this state of the handle */
    AMB_ENOMEM = -6,     /* no memory, here or in the broker */
    AMB_ENOTSUP = -7,    /* this build, link or broker cannot do it */
    AMB_ETOPIC = -8,     /* not a valid topic or pattern */
    AMB_EFORBIDDEN = -9, /* the caller may not do this */
    AMB_ELIMIT = -10,    /* a named maximum is reached */
    AMB_ETOOLARGE = -11, /* the message is larger than the broker takes */
    AMB_ENOTFOUND = -12, /* no such object */
    AMB_EKIND = -13,     /* memory of a kind that cannot be used here */
    /* One message: it was not, or may not have been, taken or delivered. */
    AMB_ENORESPONDERS = -32,
    AMB_EREJECTED = -33, /* the topic refused it */
    AMB_EEXPIRED = -34,
    AMB_ESTALE = -35,
    AMB_ECANCELED = -36,
    AMB_ECUDA = -37,
    AMB_EUNKNOWN = -38, /* it may or may not have arrived */
    /* The session: it is over. */
    AMB_EUNREACHABLE = -64,
    AMB_EAUTH = -65,
    AMB_EVERSION = -66,
    AMB_EBUSY = -67,
    AMB_ELOST = -68,
    AMB_EPROTO = -69,
    AMB_EKICKED = -70,
    AMB_EDISASSOC = -71,
    AMB_ECLOSED = -72,
    /* The process. */
    AMB_EFORKED = -96,
    AMB_EUCX = -97,
    AMB_EINTERNAL = -98,
};

enum amb_scope {
    AMB_SCOPE_NONE,
    AMB_SCOPE_CALL,
    AMB_SCOPE_MESSAGE,
    AMB_SCOPE_SESSION,
    AMB_SCOPE_PROCESS,
};

/* Where bytes are. DEFAULT: publish = detect from the pointer, subscribe and lease = host.
 * AS_SENT: subscribe only. */
enum amb_mem {
    AMB_MEM_DEFAULT,
    AMB_MEM_AS_SENT,
    AMB_MEM_HOST,
    AMB_MEM_PINNED,
    AMB_MEM_CUDA,
    AMB_MEM_CUDA_MANAGED,
};

/* A message of a kind of memory that no allocator of a subscription serves. */
enum amb_fallback {
    AMB_FALLBACK_IN_PLACE, /* stays where it came, which may be a GPU */
    AMB_FALLBACK_HOST,     /* comes to host memory */
};

enum amb_ack {
    AMB_ACK_DEFAULT,
    AMB_ACK_NONE,
    AMB_ACK_EXPLICIT,
    AMB_ACK_CUMULATIVE,
};

/* The confirmation that a publisher wants. ACCEPTED: whole in broker memory. */
enum amb_confirm {
    AMB_CONFIRM_DEFAULT,
    AMB_CONFIRM_NONE,
    AMB_CONFIRM_ACCEPTED,
    AMB_CONFIRM_DELIVERED,
    AMB_CONFIRM_DURABLE,
};

enum amb_start {
    AMB_START_NEW,
    AMB_START_LAST,
    AMB_START_LAST_N,
    AMB_START_FIRST,
    AMB_START_SEQ,
    AMB_START_TIME,
    AMB_START_POSITION,
};

/* Deliveries without payloads. */
enum amb_lazy {
    AMB_LAZY_OFF,
    AMB_LAZY_ON,      /* a payload comes when it is asked for, if it is still there (ESTALE) */
    AMB_LAZY_PIN,     /* the same, and it is there until the message is released */
    AMB_LAZY_HEADERS, /* it cannot be asked for */
};

/* How fast history is given. */
enum amb_tempo {
    AMB_TEMPO_AT_ONCE,
    AMB_TEMPO_ORIGINAL, /* each message as long after the first one as it was published */
};

/* The policy for a subscriber that does not keep up. */
enum amb_slow {
    AMB_SLOW_DEFAULT,
    AMB_SLOW_DROP_OLDEST,
    AMB_SLOW_DROP_NEWEST,
    AMB_SLOW_LATEST,
    AMB_SLOW_BLOCK,
    AMB_SLOW_SPILL,
    AMB_SLOW_DISCONNECT,
};

/* The order in which a subscription gets the waiting messages of a topic. */
enum amb_priority {
    AMB_PRIORITY_NORMAL,
    AMB_PRIORITY_HIGH,
    AMB_PRIORITY_LOW,
};

/* Why messages are missing just before a delivery. */
enum amb_loss {
    AMB_LOSS_NONE,
    AMB_LOSS_SLOW,           /* this subscription did not keep up */
    AMB_LOSS_TRIMMED,        /* the topic's log was full */
    AMB_LOSS_EXPIRED,        /* their time to live had passed */
    AMB_LOSS_TRANSFER,       /* the bytes could not be brought here */
    AMB_LOSS_BROKER_RESTART, /* unknowable: the broker restarted */
    AMB_LOSS_MIXED,          /* more than one of these */
    AMB_LOSS_AWAY,           /* published while this client had no session */
    AMB_LOSS_PURGED,         /* an operator has emptied the topic */
};

/* The reason for which a send on a publisher would wait now. */
enum amb_blocked {
    AMB_BLOCKED_NOT,
    AMB_BLOCKED_WINDOW,
    AMB_BLOCKED_LOG_FULL,
    AMB_BLOCKED_SLOW_SUBSCRIBER,
    AMB_BLOCKED_MEMORY,
    AMB_BLOCKED_LOST,
    AMB_BLOCKED_QUOTA, /* of its user, or of its tenant */
};

#ifdef __cplusplus
}
#endif
#endif
