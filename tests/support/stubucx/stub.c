/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libucp that says which release it is, and does nothing else.
 *
 *   STUB_MAJOR, STUB_MINOR, STUB_PATCH   the release
 *   STUB_LACKS                           one of the functions is not there
 *   STUB_MUTE                            no text in the file tells the release
 */
#define EXPORT __attribute__((visibility("default")))
#define STUB(name)                                                                                 \
    EXPORT void *name(void);                                                                       \
    EXPORT void *name(void)                                                                        \
    {                                                                                              \
        return (void *)0;                                                                          \
    }
#define WORD(number) #number
#define TEXT(major, minor, patch) WORD(major) "." WORD(minor) "." WORD(patch)

EXPORT void ucp_get_version(unsigned *major, unsigned *minor, unsigned *patch);
EXPORT void ucp_get_version(unsigned *major, unsigned *minor, unsigned *patch)
{
    *major = STUB_MAJOR;
    *minor = STUB_MINOR;
    *patch = STUB_PATCH;
}

EXPORT const char *ucp_get_version_string(void);
EXPORT const char *ucp_get_version_string(void)
{
#ifdef STUB_MUTE
    return "";
#else
    return TEXT(STUB_MAJOR, STUB_MINOR, STUB_PATCH);
#endif
}

#ifndef STUB_LACKS
STUB(ucp_am_send_nbx)
#endif
STUB(ucp_am_recv_data_nbx)
STUB(ucp_cleanup)
STUB(ucp_context_query)
STUB(ucp_config_modify)
STUB(ucp_config_print)
STUB(ucp_config_read)
STUB(ucp_config_release)
STUB(ucp_ep_close_nbx)
STUB(ucp_ep_create)
STUB(ucp_ep_evaluate_perf)
STUB(ucp_ep_flush_nbx)
STUB(ucp_ep_print_info)
STUB(ucp_ep_query)
STUB(ucp_init_version)
STUB(ucp_mem_map)
STUB(ucp_mem_unmap)
STUB(ucp_request_free)
STUB(ucp_worker_arm)
STUB(ucp_worker_create)
STUB(ucp_worker_destroy)
STUB(ucp_worker_get_efd)
STUB(ucp_worker_progress)
STUB(ucp_worker_query)
STUB(ucp_worker_release_address)
STUB(ucp_worker_set_am_recv_handler)
STUB(ucs_global_opts_get_value)
STUB(ucs_global_opts_set_value)
STUB(ucs_log_push_handler)
STUB(ucs_status_string)
