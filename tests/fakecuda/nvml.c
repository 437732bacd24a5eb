/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's management library, as far as UCX's CUDA modules need it to be there. Every call is
 * answered: no driver is loaded.
 * Threads: any. Memory: none.
 */
#define DRIVER_NOT_LOADED 9

const char *nvmlErrorString(int result);
const char *nvmlErrorString(int result)
{
    (void)result;
    return "as fakecuda was told";
}

#define NO_DRIVER(name)                                                                            \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return DRIVER_NOT_LOADED;                                                                  \
    }
NO_DRIVER(nvmlInit_v2)
NO_DRIVER(nvmlShutdown)
NO_DRIVER(nvmlDeviceGetCount_v2)
NO_DRIVER(nvmlDeviceGetFieldValues)
NO_DRIVER(nvmlDeviceGetGpuFabricInfo)
NO_DRIVER(nvmlDeviceGetGpuFabricInfoV)
NO_DRIVER(nvmlDeviceGetHandleByIndex_v2)
NO_DRIVER(nvmlDeviceGetNvLinkRemotePciInfo_v2)
NO_DRIVER(nvmlDeviceGetPciInfo_v3)
