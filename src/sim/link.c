#include "sim/link.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/grow.h"
#include "base/hash_table.h"
#include "sim/world_libc.h"

/* What relocations do, whatever the machine calls them. */
enum relocation {
    FILL_ADDRESS,
    FILL_RELATIVE,
    FILL_INDIRECT,
    FILL_TLS_MODULE,
    FILL_TLS_OFFSET,
    FILL_TLS_STATIC,
    FILL_TLS_CALL,
    FILL_NOTHING,
    FILL_UNKNOWN,
};

#if defined(__x86_64__)
static enum relocation relocation_of(uint32_t type) {
    switch (type) {
    case R_X86_64_64:
    case R_X86_64_GLOB_DAT:
    case R_X86_64_JUMP_SLOT:
        return FILL_ADDRESS;
    case R_X86_64_RELATIVE:
        return FILL_RELATIVE;
    case R_X86_64_IRELATIVE:
        return FILL_INDIRECT;
    case R_X86_64_DTPMOD64:
        return FILL_TLS_MODULE;
    case R_X86_64_DTPOFF64:
        return FILL_TLS_OFFSET;
    case R_X86_64_TPOFF64:
        return FILL_TLS_STATIC;
    case R_X86_64_TLSDESC:
        return FILL_TLS_CALL;
    case R_X86_64_NONE:
        return FILL_NOTHING;
    default:
        return FILL_UNKNOWN;
    }
}
#elif defined(__aarch64__)
static enum relocation relocation_of(uint32_t type) {
    switch (type) {
    case R_AARCH64_ABS64:
    case R_AARCH64_GLOB_DAT:
    case R_AARCH64_JUMP_SLOT:
        return FILL_ADDRESS;
    case R_AARCH64_RELATIVE:
        return FILL_RELATIVE;
    case R_AARCH64_IRELATIVE:
        return FILL_INDIRECT;
    case R_AARCH64_TLS_DTPMOD:
        return FILL_TLS_MODULE;
    case R_AARCH64_TLS_DTPREL:
        return FILL_TLS_OFFSET;
    case R_AARCH64_TLS_TPREL:
        return FILL_TLS_STATIC;
    case R_AARCH64_TLSDESC:
        return FILL_TLS_CALL;
    case R_AARCH64_NONE:
        return FILL_NOTHING;
    default:
        return FILL_UNKNOWN;
    }
}
#else
static enum relocation relocation_of(uint32_t type) {
    (void)type;
    return FILL_UNKNOWN;
}
#endif

static int no_memory(const struct linked *l, struct spin_error *err) {
    return spin_fail(err, SPIN_ENOMEM, "out of memory for %s",
                     l->count ? l->objects[0].object.path : "a program");
}

/* ---- libraries --------------------------------------------------------------------------------
 */

/* Portals is this process's, whatever library the program was linked with. */
static bool is_ours(const char *name) {
    const char *slash = strrchr(name, '/');
    name = slash ? slash + 1 : name;
    return strncmp(name, "libportals.", 11) == 0 || strncmp(name, "libopenspin.", 12) == 0 ||
           strncmp(name, "libportals4.", 12) == 0;
}

static bool is_folder_of_system(const char *folder) {
    return strncmp(folder, "/lib", 4) == 0 || strncmp(folder, "/usr/lib", 8) == 0;
}

static bool is_file(const char *folder, const char *name, char *path, size_t room) {
    int length = snprintf(path, room, "%s/%s", folder, name);
    return length > 0 && (size_t)length < room && access(path, R_OK) == 0;
}

/* In a list of folders as DT_RUNPATH and LD_LIBRARY_PATH have them. */
static bool find_in(const char *list, const char *origin, const char *name, char *path,
                    size_t room) {
    while (list && *list) {
        size_t length = strcspn(list, ":;"), used = 0;
        char folder[PATH_MAX];
        for (size_t i = 0; i < length && used + 1 < sizeof folder;) {
            size_t word = length - i >= 7 && strncmp(list + i, "$ORIGIN", 7) == 0     ? 7
                          : length - i >= 9 && strncmp(list + i, "${ORIGIN}", 9) == 0 ? 9
                                                                                      : 0;
            if (word)
                used += (size_t)snprintf(folder + used, sizeof folder - used, "%s", origin);
            else
                folder[used++] = list[i];
            i += word ? word : 1;
            used = used < sizeof folder ? used : sizeof folder - 1;
        }
        folder[used] = 0;
        if (used && !is_folder_of_system(folder) && is_file(folder, name, path, room))
            return true;
        list += length + (list[length] ? 1 : 0);
    }
    return false;
}

/* A library that comes with the program, or false: then it is the system's. */
static bool find_own(const struct object *by, const char *name, char *path, size_t room) {
    char origin[PATH_MAX];
    snprintf(origin, sizeof origin, "%s", by->path);
    char *slash = strrchr(origin, '/');
    if (slash)
        *slash = 0;
    else
        snprintf(origin, sizeof origin, ".");
    if (strchr(name, '/')) {
        snprintf(path, room, "%s", name);
        return !is_folder_of_system(name) && access(name, R_OK) == 0;
    }
    return find_in(by->search, origin, name, path, room) ||
           find_in(getenv("LD_LIBRARY_PATH"), origin, name, path, room) ||
           find_in("/usr/local/lib:/usr/local/lib64", origin, name, path, room);
}

static int add_system(struct linked *l, const char *by, const char *name, struct spin_error *err) {
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *why = dlerror();
        return spin_fail(err, SPIN_EFORMAT, "%s: cannot load: %s", by, why ? why : name);
    }
    void **larger = realloc(l->system, (l->systems + 1) * sizeof *larger);
    if (!larger) {
        dlclose(handle);
        return no_memory(l, err);
    }
    l->system = larger;
    l->system[l->systems++] = handle;
    l->unwinds = l->unwinds || strncmp(name, "libgcc_s.", 9) == 0 ||
                 strncmp(name, "libstdc++.", 10) == 0 || strncmp(name, "libc++.", 7) == 0;
    return SPIN_OK;
}

static int add_own(struct linked *l, const char *path, struct spin_error *err) {
    for (uint32_t i = 0; i < l->count; i++)
        if (strcmp(l->objects[i].object.path, path) == 0)
            return SPIN_OK;
    struct link_object *larger = realloc(l->objects, (l->count + 1) * sizeof *larger);
    if (!larger)
        return no_memory(l, err);
    l->objects = larger;
    l->objects[l->count] = (struct link_object){0};
    int code = object_read(&l->objects[l->count].object, path, err);
    l->count += code == SPIN_OK;
    return code;
}

static int add_needed(struct linked *l, uint32_t by, struct spin_error *err) {
    const char *name;
    int code = SPIN_OK;
    for (uint32_t i = 0; !code && (name = object_needs(&l->objects[by].object, i)); i++) {
        char path[PATH_MAX];
        if (is_ours(name))
            continue;
        if (find_own(&l->objects[by].object, name, path, sizeof path))
            code = add_own(l, path, err);
        else
            code = add_system(l, l->objects[by].object.path, name, err);
    }
    return code;
}

/* ---- where it all goes ------------------------------------------------------------------------
 */

static uint64_t round_up(uint64_t value, uint64_t align) {
    return (value + align - 1) & ~(align - 1);
}

/* The C library's variables are behind those of the first object that has room on its last page: a
 * page of their own would be one per rank. */
static void place_own(struct linked *l) {
    const uint64_t bytes = world_libc_bytes(), align = 16;
    for (uint32_t i = 0; i < l->count; i++) {
        const struct object *o = &l->objects[i].object;
        uint64_t end = round_up(o->end, align);
        if (end > o->private_from && o->span - end >= bytes) {
            l->own_at = l->objects[i].at + end;
            return;
        }
    }
    l->own_at = l->span;
    l->span += bytes;
}

static void place_objects(struct linked *l) {
    l->tls_align = 16;
    for (uint32_t i = 0; i < l->count; i++) {
        struct link_object *o = &l->objects[i];
        o->at = l->span = round_up(l->span, o->object.align);
        l->span += o->object.span;
        l->align = o->object.align > l->align ? o->object.align : l->align;
        if (!o->object.tls_bytes)
            continue;
        o->tls = round_up(l->tls_bytes, o->object.tls_align);
        l->tls_bytes = o->tls + o->object.tls_bytes;
        l->tls_align = o->object.tls_align > l->tls_align ? o->object.tls_align : l->tls_align;
    }
    place_own(l);
    l->span = round_up(l->span, l->align);
}

/* Those that others need come first; what needs each other comes in the order in which it was
 * found.
 */
static void order_from(struct linked *l, uint32_t i, uint32_t *next) {
    struct link_object *o = &l->objects[i];
    const char *name;
    if (o->order)
        return;
    o->order = 1;
    for (uint32_t k = 0; (name = object_needs(&o->object, k)); k++) {
        char path[PATH_MAX];
        if (!is_ours(name) && find_own(&o->object, name, path, sizeof path))
            for (uint32_t other = 0; other < l->count; other++)
                if (strcmp(l->objects[other].object.path, path) == 0)
                    order_from(l, other, next);
    }
    l->initialise[(*next)++] = i;
}

/* ---- names ------------------------------------------------------------------------------------
 */

struct definition {
    uint32_t object, symbol; /* symbol 0 is none */
};

static bool names_holds(const struct linked *l, const struct definition *d) {
    (void)l;
    return d->symbol != 0;
}
static const char *names_key(const struct linked *l, const struct definition *d) {
    return object_symbol_name(&l->objects[d->object].object, d->symbol);
}
static uint64_t names_hash(const struct linked *l, const char *name) {
    (void)l;
    return hash_table_text(name, strlen(name));
}
static bool names_same(const struct linked *l, const struct definition *d, const char *name) {
    return strcmp(names_key(l, d), name) == 0;
}
HASH_TABLE(names, struct linked, struct definition, const char *);

static int collect_names(struct linked *l, struct hash_table *names, struct spin_error *err) {
    for (uint32_t i = 0; i < l->count; i++)
        for (uint32_t s = 1; s < l->objects[i].object.symbol_count; s++) {
            const struct object *o = &l->objects[i].object;
            const char *name = object_symbol_name(o, s);
            if (!object_defines(o, s) || !*name)
                continue;
            if (!names_room(names, l))
                return no_memory(l, err);
            struct definition *d = names_slot(names, l, name);
            if (names_holds(l, d))
                continue; /* the first one is meant */
            *d = (struct definition){i, s};
            names->used++;
        }
    return SPIN_OK;
}

enum place { IN_IMAGE, RETURNED, OUTSIDE, THREAD_LOCAL, NOWHERE };

struct meaning { /* of a name */
    enum place place;
    uint32_t object;
    uint64_t value; /* in the image, of the process, or among the object's thread-local variables */
};

static struct meaning defined_in(const struct linked *l, uint32_t object, uint32_t symbol) {
    const Elf64_Sym *s = &l->objects[object].object.symbols[symbol];
    unsigned type = ELF64_ST_TYPE(s->st_info);
    enum place place = type == STT_TLS          ? THREAD_LOCAL
                       : type == STT_GNU_IFUNC  ? RETURNED
                       : s->st_shndx == SHN_ABS ? OUTSIDE
                                                : IN_IMAGE;
    uint64_t from = place == THREAD_LOCAL || place == OUTSIDE ? 0 : l->objects[object].at;
    return (struct meaning){place, object, from + s->st_value};
}

static struct meaning in_process(const struct linked *l, const char *name, const char *version) {
    void *address = version ? dlvsym(RTLD_DEFAULT, name, version) : NULL;
    if (!address)
        address = dlsym(RTLD_DEFAULT, name);
    for (uint32_t i = 0; i < l->systems && !address; i++) {
        address = version ? dlvsym(l->system[i], name, version) : NULL;
        if (!address)
            address = dlsym(l->system[i], name);
    }
    return (struct meaning){address ? OUTSIDE : NOWHERE, 0, (uint64_t)(uintptr_t)address};
}

static struct meaning meaning_of(const struct linked *l, const struct hash_table *names,
                                 uint32_t object, uint32_t symbol) {
    const struct object *o = &l->objects[object].object;
    const Elf64_Sym *s = &o->symbols[symbol];
    const char *name = object_symbol_name(o, symbol);
    if (s->st_shndx != SHN_UNDEF &&
        (ELF64_ST_BIND(s->st_info) == STB_LOCAL || ELF64_ST_VISIBILITY(s->st_other) != STV_DEFAULT))
        return defined_in(l, object, symbol);
    const struct definition *d = names_find(names, l, name);
    if (d)
        return defined_in(l, d->object, d->symbol);
    uint64_t offset;
    const void *own = world_libc_call(name);
    if (own)
        return (struct meaning){OUTSIDE, 0, (uint64_t)(uintptr_t)own};
    if (world_libc_variable(name, &offset))
        return (struct meaning){IN_IMAGE, 0, l->own_at + offset};
    return in_process(l, name, object_symbol_version(o, symbol));
}

/* ---- filling in -------------------------------------------------------------------------------
 */

struct filling {
    struct linked *l;
    const struct hash_table *names;
    uint32_t object;
    struct spin_error *err;
    uint64_t room, indirect_room;
};

static bool put(struct link_fixup **list, uint64_t *count, uint64_t *room, uint64_t at,
                uint64_t value) {
    if (!ROOM_FOR_ONE(*list, *count, *room, 64))
        return false;
    (*list)[(*count)++] = (struct link_fixup){at, value};
    return true;
}

static int fix(struct filling *f, uint64_t at, uint64_t value) {
    uint64_t place = f->l->objects[f->object].at + at;
    return put(&f->l->fixups, &f->l->fixup_count, &f->room, place, value) ? SPIN_OK
                                                                          : no_memory(f->l, f->err);
}

static int fix_later(struct filling *f, uint64_t at, uint64_t value) {
    uint64_t place = f->l->objects[f->object].at + at;
    return put(&f->l->indirect, &f->l->indirect_count, &f->indirect_room, place, value)
               ? SPIN_OK
               : no_memory(f->l, f->err);
}

static void store(uint8_t *at, uint64_t word) {
    memcpy(at, &word, sizeof word); /* structures may be packed */
}

static int fill_address(struct filling *f, uint64_t at, const struct meaning *m, uint64_t addend,
                        uint8_t *word) {
    if (m->place == IN_IMAGE)
        return fix(f, at, m->value + addend);
    if (m->place == RETURNED)
        return fix_later(f, at, m->value);
    store(word, m->place == NOWHERE ? addend : m->value + addend);
    return SPIN_OK;
}

static uint64_t thread_pointer(void) {
    return (uint64_t)(uintptr_t)__builtin_thread_pointer();
}

static int fill_tls(struct filling *f, enum relocation how, const struct meaning *m,
                    uint64_t addend, uint8_t *word) {
    bool own = m->place == THREAD_LOCAL;
    uint64_t value = m->value + addend;
    switch (how) {
    case FILL_TLS_MODULE:
        store(word, own ? LINK_TLS_OBJECT | m->object : LINK_TLS_FIXED);
        return SPIN_OK;
    case FILL_TLS_OFFSET:
        store(word, value);
        return SPIN_OK;
    case FILL_TLS_STATIC:
        if (own)
            break;
        store(word, value - thread_pointer()); /* all ranks are on this thread */
        return SPIN_OK;
    default:
        if (!world_libc_tls_call())
            break;
        store(word, (uint64_t)(uintptr_t)world_libc_tls_call());
        store(word + 8, own ? f->l->objects[m->object].tls + value : LINK_TLS_FIXED | value);
        return SPIN_OK;
    }
    return spin_fail(f->err, SPIN_EFORMAT,
                     "%s: cannot load: thread-local variables of a model that cannot be copied; "
                     "compile with -fPIC, without -ftls-model and -mtls-dialect",
                     f->l->objects[f->object].object.path);
}

/* The name is out of a file: nothing in it reaches a terminal but what can be seen. */
static int undefined(const struct object *o, const char *name, struct spin_error *err) {
    char text[200];
    snprintf(text, sizeof text, "%s", name);
    for (char *c = text; *c; c++)
        *c = *c > ' ' && *c < 127 ? *c : '?';
    return spin_fail(err, SPIN_EFORMAT, "%s: cannot load: undefined symbol: %s", o->path, text);
}

static int fill(struct filling *f, const Elf64_Rela *r) {
    const struct object *o = &f->l->objects[f->object].object;
    uint32_t symbol = (uint32_t)ELF64_R_SYM(r->r_info);
    enum relocation how = relocation_of((uint32_t)ELF64_R_TYPE(r->r_info));
    uint64_t addend = (uint64_t)r->r_addend;
    uint8_t *word = object_at(o, r->r_offset, how == FILL_TLS_CALL ? 16 : 8);
    if (how == FILL_NOTHING)
        return SPIN_OK;
    if (how == FILL_UNKNOWN || !word || symbol >= (o->symbol_count ? o->symbol_count : 1) ||
        r->r_offset < o->private_from)
        return spin_fail(f->err, SPIN_EFORMAT,
                         "%s: cannot load: a relocation of kind %u at %#llx; a program is a shared "
                         "object (cc -shared -fPIC)",
                         o->path, (unsigned)ELF64_R_TYPE(r->r_info),
                         (unsigned long long)r->r_offset);
    if (how == FILL_RELATIVE)
        return fix(f, r->r_offset, f->l->objects[f->object].at + addend);
    if (how == FILL_INDIRECT)
        return fix_later(f, r->r_offset, f->l->objects[f->object].at + addend);
    /* Without a symbol the object itself is meant. */
    struct meaning m = symbol                ? meaning_of(f->l, f->names, f->object, symbol)
                       : how == FILL_ADDRESS ? (struct meaning){OUTSIDE, 0, 0}
                                             : (struct meaning){THREAD_LOCAL, f->object, 0};
    if (m.place == NOWHERE && ELF64_ST_BIND(o->symbols[symbol].st_info) != STB_WEAK)
        return undefined(o, object_symbol_name(o, symbol), f->err);
    return how == FILL_ADDRESS ? fill_address(f, r->r_offset, &m, addend, word)
                               : fill_tls(f, how, &m, addend, word);
}

/* Words that hold an offset in the object: an address, then maps of the 63 words behind. */
static int fill_packed(struct filling *f) {
    const struct link_object *o = &f->l->objects[f->object];
    const uint64_t *entry = object_at(&o->object, o->object.packed.at, o->object.packed.bytes);
    uint64_t at = 0;
    int code = SPIN_OK;
    for (uint64_t i = 0; i < o->object.packed.bytes / 8 && !code; i++) {
        uint64_t bits = entry[i] & 1 ? entry[i] >> 1 : 1;
        if (!(entry[i] & 1))
            at = entry[i];
        for (unsigned k = 0; bits && !code; k++, bits >>= 1) {
            const uint8_t *word = object_at(&o->object, at + 8 * k, 8);
            uint64_t value;
            if (!(bits & 1))
                continue;
            if (!word)
                return spin_fail(f->err, SPIN_EFORMAT,
                                 "%s: cannot load: a relocation outside of it", o->object.path);
            memcpy(&value, word, sizeof value);
            code = fix(f, at + 8 * k, o->at + value);
        }
        at += entry[i] & 1 ? 8 * 63 : 8;
    }
    return code;
}

static int fill_all(struct linked *l, const struct hash_table *names, struct spin_error *err) {
    struct filling f = {.l = l, .names = names, .err = err};
    int code = SPIN_OK;
    for (f.object = 0; f.object < l->count && !code; f.object++) {
        const struct object *o = &l->objects[f.object].object;
        code = fill_packed(&f);
        for (int t = 0; t < 2; t++) {
            const struct object_table *table = &o->relocations[t];
            const Elf64_Rela *r = object_at(o, table->at, table->bytes);
            for (uint64_t i = 0; i < table->bytes / sizeof *r && !code; i++)
                code = fill(&f, &r[i]);
        }
    }
    return code;
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static int find_main(struct linked *l, const struct hash_table *names, struct spin_error *err) {
    const char *path = l->objects[0].object.path;
    const struct definition *d = names_find(names, l, "main");
    struct meaning m = {NOWHERE, 0, 0};
    if (d)
        m = defined_in(l, d->object, d->symbol);
    if (m.place != IN_IMAGE || m.value >= l->span)
        return spin_fail(err, SPIN_EFORMAT, "%s: has no main()", path);
    l->main = m.value;
    return SPIN_OK;
}

bool link_find(const struct linked *l, const char *name, const void **address) {
    struct meaning m = in_process(l, name, NULL);
    *address = (const void *)(uintptr_t)m.value;
    return m.place == OUTSIDE;
}

int link_program(struct linked *l, const char *path, struct spin_error *err) {
    struct hash_table names = {0};
    *l = (struct linked){.align = 1};
    int code = add_own(l, path, err);
    for (uint32_t i = 0; i < l->count && !code; i++)
        code = add_needed(l, i, err);
    if (!code) {
        place_objects(l);
        l->initialise = calloc(l->count, sizeof *l->initialise);
        code = l->initialise ? collect_names(l, &names, err) : no_memory(l, err);
    }
    if (!code) {
        uint32_t next = 0;
        order_from(l, 0, &next);
        for (uint32_t i = 0; i < l->count; i++)
            order_from(l, i, &next);
        code = find_main(l, &names, err);
    }
    if (!code)
        code = fill_all(l, &names, err);
    hash_table_free(&names);
    if (code)
        link_free(l);
    return code;
}

void link_free(struct linked *l) {
    for (uint32_t i = 0; i < l->count; i++)
        object_free(&l->objects[i].object);
    for (uint32_t i = 0; i < l->systems; i++)
        dlclose(l->system[i]);
    free(l->objects);
    free(l->system);
    free(l->fixups);
    free(l->indirect);
    free(l->initialise);
    *l = (struct linked){0};
}
