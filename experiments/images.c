#include "images.h"

#include "base/error.h"
#include "base/file.h"

static const char *find(const char *const *places, const char *probe, char *folder) {
    return file_beside(places, probe, folder, PATH_MAX) ? folder : NULL;
}

struct experiment_context images_find(struct images_folders *folders) {
    static const char *const own[] = {"experiments/handlers", "../share/openspin/experiments",
                                      NULL};
    static const char *const workloads[] = {".", "../share/openspin/handlers", NULL};
    static const char *const programs[] = {"handlers", "../libexec/openspin", NULL};
    return (struct experiment_context){.images = find(own, "copy.spin", folders->images),
                                       .workloads =
                                           find(workloads, "reduce.spin", folders->workloads),
                                       .programs = find(programs, "p4-live", folders->programs)};
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
