/* Runs a fuzzer's function once on each file of the folders (or files) given: the corpus as a test.
 * A crash or a failed check ends it, as it would end the fuzzer. Prints TAP, one line per file. */
#include <dirent.h>
#include <limits.h>

#include "fuzz/fuzz.h"

static int count;

static void replay(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return;
    printf("# %s\n", path);
    fflush(stdout); /* so that a crash is seen to be this file's */
    size_t room = 4 << 20, length = 0;
    uint8_t *bytes = malloc(room);
    if (bytes)
        length = fread(bytes, 1, room, file);
    fclose(file);
    /* In a block of exactly its length, so that the sanitizer sees a byte too far. */
    uint8_t *exact = malloc(length ? length : 1);
    if (exact && bytes)
        memcpy(exact, bytes, length);
    free(bytes);
    if (exact)
        LLVMFuzzerTestOneInput(exact, length);
    free(exact);
    const char *name = strrchr(path, '/');
    printf("ok %d - %s\n", ++count, name ? name + 1 : path);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        struct dirent **entry;
        int entries = scandir(argv[i], &entry, NULL, alphasort);
        if (entries < 0)
            replay(argv[i]);
        for (int k = 0; k < entries; k++) {
            char path[PATH_MAX];
            snprintf(path, sizeof path, "%s/%s", argv[i], entry[k]->d_name);
            if (entry[k]->d_name[0] != '.')
                replay(path);
            free(entry[k]);
        }
        if (entries >= 0)
            free(entry);
    }
    printf("1..%d\n", count);
    return count ? 0 : 1;
}
