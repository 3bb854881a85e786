#include "live/live_auth.h"

#include <dlfcn.h>
#include <string.h>

#include "base/error.h"
#include "live/live_names.h"

#define LIBRARY "libsodium.so.23"

static const char purpose[] = "openspin: datagrams of a job";

int live_auth_init(struct live_auth *auth, const uint8_t *key, struct spin_error *err) {
    int (*init)(void);
    int (*derive)(unsigned char *out, size_t out_bytes, const unsigned char *in,
                  unsigned long long length, const unsigned char *key, size_t key_bytes);
    void *library = dlopen(LIBRARY, RTLD_NOW);
    if (!library)
        return spin_fail(err, SPIN_EFILE,
                         "OPENSPIN_AUTH needs libsodium: %.120s (Debian: "
                         "libsodium23)",
                         dlerror());
    init = (__typeof__(init))dlsym(library, "sodium_init");
    derive = (__typeof__(derive))dlsym(library, "crypto_generichash");
    auth->tag = (__typeof__(auth->tag))dlsym(library, "crypto_shorthash_siphashx24");
    auth->differ = (__typeof__(auth->differ))dlsym(library, "crypto_verify_16");
    if (!init || !derive || !auth->tag || !auth->differ || init() < 0 ||
        derive(auth->key, sizeof auth->key, (const unsigned char *)purpose, sizeof purpose - 1, key,
               LIVE_KEY_BYTES))
        return spin_fail(err, SPIN_EFILE, LIBRARY ": not the libsodium that OPENSPIN_AUTH needs");
    return 0;
}
