/* Loads the library by dlopen, as plugins of other libraries do, and closes it while the card's
 * threads run: plugin LIBRARY */
#include <dlfcn.h>
#include <portals4.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    for (int i = 0; i < 3 && argc == 2; i++) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        int (*init)(void) = library ? (int (*)(void))dlsym(library, "PtlInit") : NULL;
        void (*fini)(void) = library ? (void (*)(void))dlsym(library, "PtlFini") : NULL;
        if (!init || !fini) {
            printf("%s\n", dlerror());
            return 1;
        }
        printf("PtlInit: %d\n", init());
        fini();
        dlclose(library);
        usleep(20000);
    }
    return 0;
}
