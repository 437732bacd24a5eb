/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/config_faults.h"

#include "wire/config/config_build.h"

#include <stdio.h>

void amb_config_fault_tell(struct amb_config_faults *faults, const char *where, const char *key,
                           const char *reason)
{
    faults->is_told = true;
    if (faults->count < AMB_CONFIG_FAULTS_MAX) {
        struct amb_config_fault *fault = &faults->items[faults->count];
        (void)snprintf(fault->where, sizeof(fault->where), "%s", where);
        (void)snprintf(fault->key, sizeof(fault->key), "%s", key);
        (void)snprintf(fault->reason, sizeof(fault->reason), "%s", reason);
    }
}

void amb_config_fault_keep(struct amb_config_faults *faults)
{
    if (!faults->is_told) {
        return;
    }
    faults->is_told = false;
    if (faults->count < AMB_CONFIG_FAULTS_MAX) {
        faults->count++;
    } else {
        faults->more++;
    }
}

const char *amb_config_fault_format(const struct amb_config_fault *fault, char *out, size_t size)
{
    (void)snprintf(out, size, "%s: %s%s%s", fault->where, fault->key,
                   fault->key[0] == '\0' ? "" : ": ", fault->reason);
    return out;
}

unsigned amb_config_faults_count(const struct amb_config_build *build)
{
    return build->faults == NULL ? 0 : build->faults->count + build->faults->more;
}

bool amb_config_goes_on(struct amb_config_build *build, enum amb_status *status)
{
    if (*status == AMB_EINVAL && build->faults != NULL && build->faults->is_told) {
        amb_config_fault_keep(build->faults);
        *status = AMB_OK;
    }
    return *status == AMB_OK;
}
