#include "images.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"

/* The first of two folders, seen from the program's, that has a file of that name. */
static const char *find(const char *self, const char *const places[2], const char *probe,
                        char *folder) {
    for (int i = 0; i < 2; i++) {
        char first[PATH_MAX + 64];
        if (snprintf(folder, PATH_MAX, "%s/%s", self, places[i]) >= PATH_MAX)
            continue;
        snprintf(first, sizeof first, "%s/%s", folder, probe);
        if (access(first, R_OK) == 0)
            return folder;
    }
    return NULL;
}

struct experiment_context images_find(struct images_folders *folders) {
    static const char *const own[] = {"experiments/handlers", "../share/openspin/experiments"};
    static const char *const workloads[] = {".", "../share/openspin/handlers"};
    static const char *const programs[] = {"handlers", "../libexec/openspin"};
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return (struct experiment_context){0};
    self[length] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    return (struct experiment_context){
        .images = find(self, own, "copy.spin", folders->images),
        .workloads = find(self, workloads, "reduce.spin", folders->workloads),
        .programs = find(self, programs, "p4-live", folders->programs)};
}

static int load(const char *folder, const char *name, struct spin_image **image,
                struct spin_error *err) {
    char path[PATH_MAX];
    *image = NULL;
    if (!folder)
        return spin_fail(err, SPIN_EFILE,
                         "handler image %s.spin is not where openspin is installed "
                         "(share/openspin); install it again",
                         name);
    if ((size_t)snprintf(path, sizeof path, "%s/%s.spin", folder, name) >= sizeof path)
        return spin_fail(err, SPIN_EARG, "%s: name is too long", folder);
    return spin_image_load(image, path, NULL, err);
}

int images_load(const struct experiment_context *context, const char *name,
                struct spin_image **image, struct spin_error *err) {
    return load(context->images, name, image, err);
}

int images_load_workload(const struct experiment_context *context, const char *name,
                         struct spin_image **image, struct spin_error *err) {
    return load(context->workloads, name, image, err);
}
