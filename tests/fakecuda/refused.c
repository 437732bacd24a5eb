/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fakecuda: functions that UCX's CUDA modules are linked to and that are refused here. They are for
 * sharing memory of the virtual memory calls and of pools between processes. Without CUDA's header,
 * whose prototypes differ from release to release; none of them looks at its arguments.
 */
#include <dlfcn.h>
#include <stddef.h>

#define NOT_SUPPORTED 801
#define NOT_FOUND 500

#define REFUSED(name)                                                                              \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return NOT_SUPPORTED;                                                                      \
    }
REFUSED(cuMemExportToShareableHandle)
REFUSED(cuMemImportFromShareableHandle)
REFUSED(cuMemPoolExportPointer)
REFUSED(cuMemPoolExportToShareableHandle)
REFUSED(cuMemPoolImportFromShareableHandle)
REFUSED(cuMemPoolImportPointer)
REFUSED(cuMemRangeGetAttribute)

static const char landmark[] = "here";

/* Those of this library, by their plain names. */
int cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags,
                        int *status);
int cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags,
                        int *status)
{
    Dl_info self;
    (void)version;
    (void)flags;
    void *library = dladdr((const void *)landmark, &self) != 0
                        ? dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
                        : NULL;
    *out = library != NULL ? dlsym(library, name) : NULL;
    if (library != NULL) {
        (void)dlclose(library);
    }
    if (status != NULL) {
        *status = *out == NULL;
    }
    return *out != NULL ? 0 : NOT_FOUND;
}

int cuCtxGetDevice(int *out);
int cuCtxGetId(const void *context, unsigned long long *id);
int cuCtxGetId(const void *context, unsigned long long *id)
{
    int device = 0;
    (void)context;
    int result = cuCtxGetDevice(&device);
    *id = (unsigned long long)device + 1;
    return result;
}
