/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/doctor/doctor_service.h"

#include "broker/config/config.h"
#include "wire/doctor/checks.h"

static void look_at_config(const struct amb_doctor_service *look, json_t *rows)
{
    int64_t written_ns = look->config != NULL ? amb_config_modified_ns(look->config) : 0;
    if (written_ns != 0 && written_ns != look->config_ns) {
        amb_doctor_find(rows, AMB_DOCTOR_CONFIG_NEWER, "path", look->config, NULL);
    }
}

void amb_doctor_service(const struct amb_doctor_service *look, json_t *rows)
{
    look_at_config(look, rows);
    if (look->is_managed && !look->has_watchdog) {
        amb_doctor_find(rows, AMB_DOCTOR_WATCHDOG, NULL);
    } else if (look->is_managed) {
        amb_doctor_well(rows, "service", "the service manager's watchdog looks after the broker",
                        "");
    }
}
