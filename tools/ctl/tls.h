/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl tls: an authority of one's own, the broker's certificate, and those of clients, as
 * files in a folder. It asks no broker, and overwrites nothing.
 * Threads: the main thread only.
 */
#pragma once

#include "tools/ctl/ctl.h"

enum amb_exit amb_ctl_tls_init(struct amb_ctl *ctl);
enum amb_exit amb_ctl_tls_issue(struct amb_ctl *ctl);
enum amb_exit amb_ctl_tls_renew(struct amb_ctl *ctl);
enum amb_exit amb_ctl_tls_show(struct amb_ctl *ctl);
