/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the two files of a client share: client.c is its life, client_io.c its connection.
 *
 * Threads: the control thread.
 */
#pragma once

#include "broker/control/clients/client.h"

/* Requests of one client under way. Past it, the client is not read until half of them are
 * answered. So nobody piles up work for a worker faster than it is done. */
#define AMB_CLIENT_WORK_MAX 64u
