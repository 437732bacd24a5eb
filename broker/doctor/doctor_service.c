/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/doctor/doctor_service.h"

#include "broker/config/config.h"
#include "wire/doctor/checks.h"

void amb_doctor_service(const struct amb_doctor_service *look, json_t *rows)
{
    if (look->is_managed && !look->has_watchdog) {
        amb_doctor_find(rows, AMB_DOCTOR_WATCHDOG, NULL);
    } else if (look->is_managed) {
        amb_doctor_well(rows, "service", "the service manager's watchdog looks after the broker",
                        "");
    }
}

void amb_doctor_config_file(const char *path, int64_t written_ns, json_t *rows)
{
    int64_t now_ns = path != NULL ? amb_config_modified_ns(path) : 0;
    if (now_ns != 0 && now_ns != written_ns) {
        amb_doctor_find(rows, AMB_DOCTOR_CONFIG_NEWER, "path", path, NULL);
    }
}
