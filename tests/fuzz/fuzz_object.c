/* Any bytes as a shared object: refused, or everything that the linker asks of it stays inside. */
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "sim/object.h"

static size_t touch(const struct object *o, struct object_table table) {
    const uint8_t *bytes = object_at(o, table.at, table.bytes);
    size_t sum = 0;
    FUZZ_CHECK(bytes);
    for (uint64_t i = 0; i < table.bytes; i++)
        sum += bytes[i];
    return sum;
}

static void look_at(const struct object *o) {
    const char *name;
    size_t sum = touch(o, o->relocations[0]) + touch(o, o->relocations[1]) + touch(o, o->packed) +
                 touch(o, o->init_array) + touch(o, o->fini_array);
    for (uint32_t i = 0; (name = object_needs(o, i)); i++)
        sum += strlen(name);
    for (uint32_t i = 0; i < o->symbol_count && i < 4096; i++) {
        const char *version = object_symbol_version(o, i);
        sum += strlen(object_symbol_name(o, i)) + (version ? strlen(version) : 0);
        sum += object_defines(o, i);
    }
    sum += strlen(object_function(o, o->span / 2));
    static volatile size_t seen;
    seen = sum;
    (void)seen;
    FUZZ_CHECK(o->private_from <= o->span && o->valued_to <= o->span);
    FUZZ_CHECK(!o->search || strlen(o->search) < o->string_bytes);
    FUZZ_CHECK(object_at(o, o->tls, o->tls_valued) && o->tls_valued <= o->tls_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    struct object o;
    struct spin_error err;
    int file = memfd_create("object", MFD_CLOEXEC);
    if (file < 0 || write(file, data, size) != (ssize_t)size)
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (object_read(&o, path, &err) == SPIN_OK) {
        look_at(&o);
        object_free(&o);
    } else {
        FUZZ_CHECK(strstr(err.text, path));
    }
    close(file);
    return 0;
}
