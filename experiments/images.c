#include "images.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

bool images_find(char *folder, size_t room) {
    static const char *const places[] = {"experiments/handlers", "../share/openspin/experiments"};
    char self[PATH_MAX], first[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return false;
    self[length] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if ((size_t)snprintf(folder, room, "%s/%s", self, places[i]) >= room)
            continue;
        snprintf(first, sizeof first, "%s/copy.spin", folder);
        if (access(first, R_OK) == 0)
            return true;
    }
    return false;
}

int images_load(const struct experiment_context *context, const char *name,
                struct spin_image **image, struct spin_error *err) {
    char path[PATH_MAX];
    *image = NULL;
    if (!context->images)
        return spin_fail(err, SPIN_EFILE,
                         "the experiments' handler images are not where openspin is installed "
                         "(share/openspin/experiments); install it again");
    if ((size_t)snprintf(path, sizeof path, "%s/%s.spin", context->images, name) >= sizeof path)
        return spin_fail(err, SPIN_EARG, "%s: name is too long", context->images);
    return spin_image_load(image, path, NULL, err);
}
