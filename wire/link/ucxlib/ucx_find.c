/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/ucxlib/ucx_find.h"

#include "wire/link/ucxlib/ucx_peek.h"
#include "wire/link/ucxlib/ucx_release.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libucp.so.0"
#define CONF_DEPTH_MAX 4u    /* of files that include each other */
#define CONF_LINES_MAX 512u  /* of one file */
#define CONF_FILES_MAX 4096u /* of one folder that are looked at */

/* A path of two parts; false: it is too long. */
static bool join(char *out, size_t size, const char *folder, const char *name)
{
    size_t before = strlen(folder), after = strlen(name) + 1;
    if (before + 1 + after > size) {
        out[0] = '\0';
        return false;
    }
    memcpy(out, folder, before);
    out[before] = '/';
    memcpy(out + before + 1, name, after);
    return true;
}

static bool exists(const char *folder, const char *name)
{
    char path[PATH_MAX];
    return join(path, sizeof(path), folder, name) && access(path, F_OK) == 0;
}

/* ---- one library ---- */

/* UCX looks beside itself, then where the user says. */
static void find_modules(const char *folder, struct amb_ucx_library *out)
{
    const char *set = getenv("UCX_MODULE_DIR");
    char beside[PATH_MAX] = "";
    bool has_beside = join(beside, sizeof(beside), folder, "ucx");
    const char *const folders[] = {has_beside ? beside : NULL, set};
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        if (folders[i] != NULL) {
            out->has_ib = out->has_ib || exists(folders[i], "libuct_ib.so.0");
            out->has_cuda = out->has_cuda || exists(folders[i], "libuct_cuda.so.0");
        }
    }
}

/* Why a path leads to no file. */
static const char *path_problem(void)
{
    switch (errno) {
    case EACCES:
        return "this process may not read it";
    case ELOOP:
        return "its symbolic links lead round in a circle";
    case ENAMETOOLONG:
        return "its path is too long";
    default:
        return "there is no such file";
    }
}

/* The name libucp.so.0 in its folder, if it is that same file: others in there ask for it so. */
static bool find_name(const char *folder, const char *real, char named[PATH_MAX])
{
    char other[PATH_MAX];
    return join(named, PATH_MAX, folder, LIBRARY) && realpath(named, other) != NULL &&
           strcmp(other, real) == 0;
}

bool amb_ucx_library_look(const char *path, enum amb_ucx_origin origin, struct amb_ucx_library *out,
                          const char **problem)
{
    char file[PATH_MAX], real[PATH_MAX], folder[PATH_MAX], named[PATH_MAX];
    bool is_folder = exists(path, ".");
    int len = snprintf(file, sizeof(file), is_folder ? "%s/" LIBRARY : "%s", path);
    if (len < 0 || (size_t)len >= sizeof(file)) {
        *problem = "its path is too long";
        return false;
    }
    if (realpath(file, real) == NULL) {
        *problem = is_folder && errno == ENOENT ? "there is no " LIBRARY " in that folder"
                                                : path_problem();
        return false;
    }
    const char *reason = amb_ucx_peek_problem(real);
    if (reason != NULL) {
        *problem = reason;
        return false;
    }
    /* UCX looks for its modules beside the file that was loaded, so the real one counts. Its name
     * is the one that the others in there ask for. */
    memset(out, 0, sizeof(*out));
    (void)strcpy(folder, real);
    *strrchr(folder, '/') = '\0';
    find_modules(folder, out);
    const char *chosen = find_name(folder, real, named) ? named : real;
    if (strlen(chosen) >= sizeof(out->file)) {
        *problem = "its path is too long";
        return false;
    }
    (void)strcpy(out->file, chosen);
    out->origin = origin;
    out->release = amb_ucx_peek_release(real);
    return true;
}

const char *amb_ucx_origin_name(enum amb_ucx_origin origin)
{
    static const char *const names[] = {[AMB_UCX_WHEEL] = "wheel",
                                        [AMB_UCX_SYSTEM] = "system",
                                        [AMB_UCX_NAMED] = "named",
                                        [AMB_UCX_LOADED] = "loaded"};
    return names[origin];
}

const char *amb_ucx_library_text(const struct amb_ucx_library *library, char *out, size_t size)
{
    char release[AMB_UCX_RELEASE_TEXT_MAX];
    (void)snprintf(out, size, "%s (%s)",
                   amb_ucx_release_text(library->release, release, sizeof(release)), library->file);
    return out;
}

/* ---- the places ---- */

/* The folder of the object that this code is in. */
static bool find_origin(const struct link_map *map, char out[PATH_MAX])
{
    char path[PATH_MAX];
    if (map->l_name[0] == '\0') { /* the program itself */
        ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
        if (len < 0) {
            return false;
        }
        path[len] = '\0';
    } else if (realpath(map->l_name, path) == NULL) {
        return false;
    }
    char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return false;
    }
    *slash = '\0';
    (void)strcpy(out, path);
    return true;
}

/* As the linker has it, in the object's own table; NULL: it has none. */
static const char *run_path_of(const struct link_map *map)
{
    const char *strings = NULL;
    const ElfW(Dyn) *path = NULL;
    for (const ElfW(Dyn) *at = map->l_ld; at != NULL && at->d_tag != DT_NULL; at++) {
        if (at->d_tag == DT_STRTAB) {
            ElfW(Addr) address = at->d_un.d_ptr;
            address +=
                address < map->l_addr ? map->l_addr : 0; /* Some machines leave it as it is. */
            memcpy(&strings, &address, sizeof(strings));
        } else if (at->d_tag == DT_RUNPATH || (at->d_tag == DT_RPATH && path == NULL)) {
            path = at;
        }
    }
    return strings == NULL || path == NULL ? NULL : strings + path->d_un.d_val;
}

/* The last folder of a list that was cut is another one. */
static void drop_last(char *list)
{
    char *colon = strrchr(list, ':');
    list[colon == NULL ? 0 : colon - list] = '\0';
}

/* "$ORIGIN/../x:/y" with the folder put in its place. Folders that do not fit are left out. */
static void expand(const char *text, const char *origin, char *out, size_t size)
{
    static const char *const words[] = {"${ORIGIN}", "$ORIGIN"};
    size_t used = 0;
    while (*text != '\0' && used + 1 < size) {
        size_t skipped = 0;
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && skipped == 0; i++) {
            skipped = strncmp(text, words[i], strlen(words[i])) == 0 ? strlen(words[i]) : 0;
        }
        int len = skipped != 0 ? snprintf(out + used, size - used, "%s", origin)
                               : snprintf(out + used, size - used, "%c", *text);
        used += len > 0 ? (size_t)len : 0;
        text += skipped != 0 ? skipped : 1;
    }
    if (*text != '\0' || used >= size) {
        drop_last(out);
    }
}

void amb_ucx_places_init(struct amb_ucx_places *places)
{
    Dl_info info;
    struct link_map *map = NULL;
    char origin[PATH_MAX];
    void *self;
    void (*function)(struct amb_ucx_places *) = amb_ucx_places_init;
    memcpy(&self, &function, sizeof(self)); /* ISO C has no cast for this. */
    places->run_path[0] = '\0';
    if (dladdr1(self, &info, (void **)&map, RTLD_DL_LINKMAP) != 0 && map != NULL) {
        const char *path = run_path_of(map);
        if (path != NULL && find_origin(map, origin)) {
            expand(path, origin, places->run_path, sizeof(places->run_path));
        }
    }
    const char *set = secure_getenv("LD_LIBRARY_PATH");
    int len =
        snprintf(places->library_path, sizeof(places->library_path), "%s", set == NULL ? "" : set);
    if (len < 0 || (size_t)len >= sizeof(places->library_path)) {
        drop_last(places->library_path);
    }
    places->linker_conf = "/etc/ld.so.conf";
}

/* ---- all of them ---- */

struct search {
    enum amb_ucx_origin origin;
    bool is_linkers; /* A library that was found before is the system's all the same. */
    struct amb_ucx_libraries *out;
};

static void look_into(const struct search *search, const char *folder)
{
    struct amb_ucx_libraries *out = search->out;
    const char *problem;
    if (folder[0] != '/' || out->count == AMB_UCX_LIBRARIES_MAX || !exists(folder, LIBRARY)) {
        return;
    }
    struct amb_ucx_library *library = &out->items[out->count];
    if (!amb_ucx_library_look(folder, search->origin, library, &problem)) {
        return;
    }
    for (size_t i = 0; i < out->count; i++) {
        if (strcmp(out->items[i].file, library->file) == 0) {
            /* A run path may name the system's folders, too. */
            out->items[i].origin = search->is_linkers ? search->origin : out->items[i].origin;
            return;
        }
    }
    out->count++;
}

static void look_into_list(const struct search *search, const char *list)
{
    char folder[PATH_MAX];
    for (const char *at = list; *at != '\0';) {
        size_t len = strcspn(at, ":");
        if (len > 0 && len < sizeof(folder)) {
            memcpy(folder, at, len);
            folder[len] = '\0';
            look_into(search, folder);
        }
        at += len + (at[len] == ':');
    }
}

/* A file of the linker's: a folder a line, or "include PATTERN". */
static void look_into_conf(const struct search *search, const char *file, unsigned depth);

/* Each file of a folder whose name matches, in the order of names. Not by glob(): that of
 * glibc 2.36 frees its paths twice when it has no memory for one of them. */
static void include_matches(const struct search *search, const char *folder, const char *pattern,
                            unsigned depth)
{
    char file[PATH_MAX];
    struct dirent **found;
    int count = scandir(folder, &found, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        if (i < (int)CONF_FILES_MAX && fnmatch(pattern, found[i]->d_name, FNM_PERIOD) == 0 &&
            join(file, sizeof(file), folder, found[i]->d_name)) {
            look_into_conf(search, file, depth + 1);
        }
        free(found[i]);
    }
    if (count >= 0) {
        free(found);
    }
}

/* Wildcards are taken in the last part of a pattern alone. */
static void include_conf(const struct search *search, const char *file, const char *pattern,
                         unsigned depth)
{
    char full[PATH_MAX];
    const char *slash = strrchr(file, '/');
    int folder = pattern[0] == '/' || slash == NULL ? 0 : (int)(slash - file) + 1;
    int len = snprintf(full, sizeof(full), "%.*s%s", folder, file, pattern);
    if (len < 0 || (size_t)len >= sizeof(full)) {
        return;
    }
    char *name = strrchr(full, '/');
    if (name == NULL || strpbrk(name, "*?[\\") == NULL) {
        look_into_conf(search, full, depth + 1);
        return;
    }
    *name = '\0';
    include_matches(search, full, name + 1, depth);
}

static void look_into_conf(const struct search *search, const char *file, unsigned depth)
{
    static const char include[] = "include";
    char line[PATH_MAX];
    FILE *stream = depth < CONF_DEPTH_MAX ? fopen(file, "re") : NULL;
    for (unsigned i = 0; stream != NULL && i < CONF_LINES_MAX; i++) {
        if (fgets(line, sizeof(line), stream) == NULL) {
            break;
        }
        line[strcspn(line, "#\n")] = '\0';
        char *text = line + strspn(line, " \t");
        for (size_t len = strlen(text); len > 0 && strchr(" \t\r", text[len - 1]) != NULL; len--) {
            text[len - 1] = '\0';
        }
        size_t word = sizeof(include) - 1;
        if (strncmp(text, include, word) == 0 && strspn(text + word, " \t") > 0) {
            include_conf(search, file, text + word + strspn(text + word, " \t"), depth);
        } else {
            look_into(search, text);
        }
    }
    if (stream != NULL) {
        (void)fclose(stream);
    }
}

void amb_ucx_libraries_find(const struct amb_ucx_places *places, struct amb_ucx_libraries *out)
{
    const struct search wheel = {AMB_UCX_WHEEL, false, out}, set = {AMB_UCX_SYSTEM, false, out};
    const struct search system = {AMB_UCX_SYSTEM, true, out};
    out->count = 0;
    look_into_list(&wheel, places->run_path);
    look_into_list(&set, places->library_path);
    look_into_conf(&system, places->linker_conf, 0);
    if (strcmp(places->linker_conf, "/etc/ld.so.conf") == 0) {
        look_into_list(&system, "/lib64:/usr/lib64:/lib:/usr/lib");
    }
}

/* ---- the one that is loaded ---- */

/* The file that has this function, as far as it can be told. */
static void file_of(void *library, const char *function, char out[PATH_MAX])
{
    Dl_info info = {.dli_fname = NULL};
    void *symbol = dlsym(library, function);
    bool has_file = symbol != NULL && dladdr(symbol, &info) != 0 && info.dli_fname != NULL;
    if (!has_file || realpath(info.dli_fname, out) == NULL) {
        (void)snprintf(out, PATH_MAX, "%s", has_file ? info.dli_fname : "");
    }
}

static uint32_t release_of(void *library)
{
    unsigned major = 0, minor = 0, patch = 0;
    void (*get_version)(unsigned *, unsigned *, unsigned *) = NULL;
    void *symbol = dlsym(library, "ucp_get_version");
    if (symbol != NULL) {
        memcpy(&get_version, &symbol, sizeof(symbol));
        get_version(&major, &minor, &patch);
    }
    return AMB_UCX_RELEASE(major, minor, patch);
}

/* One whose file has gone, or may not be read any more, is here all the same. */
static void take_as_it_is(const char *file, struct amb_ucx_library *out)
{
    memset(out, 0, sizeof(*out));
    out->origin = AMB_UCX_LOADED;
    (void)snprintf(out->file, sizeof(out->file), "%s", file);
}

bool amb_ucx_library_here(struct amb_ucx_library *out)
{
    char path[PATH_MAX];
    const char *problem;
    void *ucp = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
    void *ucs = ucp != NULL ? NULL : dlopen("libucs.so.0", RTLD_LAZY | RTLD_NOLOAD);
    if (ucp != NULL) {
        file_of(ucp, "ucp_get_version", path);
        if (!amb_ucx_library_look(path, AMB_UCX_LOADED, out, &problem)) {
            take_as_it_is(path, out);
        }
        out->release = release_of(ucp);
        (void)dlclose(ucp);
    } else if (ucs != NULL) { /* A part of one; the rest of it is beside, or nowhere. */
        file_of(ucs, "ucs_status_string", path);
        char *slash = strrchr(path, '/'), beside[PATH_MAX];
        path[slash == NULL ? 0 : slash - path] = '\0';
        (void)join(beside, sizeof(beside), path, LIBRARY);
        if (!amb_ucx_library_look(beside, AMB_UCX_LOADED, out, &problem)) {
            take_as_it_is(beside, out);
        }
        (void)dlclose(ucs);
    }
    return ucp != NULL || ucs != NULL;
}
