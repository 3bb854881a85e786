#include "sim/object.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define LARGEST_SPAN (64ull << 30)

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_NONE
#endif

static int bad(const struct object *o, const char *why, struct spin_error *err) {
    return spin_fail(err, SPIN_EFORMAT,
                     "%s: cannot load: %s; a program is a shared object (cc -shared -fPIC)",
                     o->path, why);
}

/* ---- segments ---------------------------------------------------------------------------------
 */

struct input {
    int file;
    uint64_t bytes;
    Elf64_Ehdr header;
    Elf64_Phdr *segment;
};

static bool read_at(const struct input *in, void *to, uint64_t bytes, uint64_t at) {
    if (at > in->bytes || bytes > in->bytes - at)
        return false;
    for (uint64_t done = 0; done < bytes;) {
        ssize_t got = pread(in->file, (uint8_t *)to + done, bytes - done, (off_t)(at + done));
        if (got <= 0)
            return false;
        done += (uint64_t)got;
    }
    return true;
}

static int read_header(struct object *o, struct input *in, struct spin_error *err) {
    const Elf64_Ehdr *h = &in->header;
    if (!read_at(in, &in->header, sizeof in->header, 0) || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
        return bad(o, "not an ELF file", err);
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
        h->e_machine != MACHINE)
        return bad(o, "an ELF file for another machine", err);
    if (h->e_type != ET_DYN || h->e_phentsize != sizeof(Elf64_Phdr) || !h->e_phnum)
        return bad(o, "an ELF file, but no shared object", err);
    in->segment = calloc(h->e_phnum, sizeof *in->segment);
    if (!in->segment)
        return spin_fail(err, SPIN_ENOMEM, "out of memory for %s", o->path);
    if (!read_at(in, in->segment, h->e_phnum * sizeof *in->segment, h->e_phoff))
        return bad(o, "its program headers are cut off", err);
    return SPIN_OK;
}

static int lay_out(struct object *o, const struct input *in, struct spin_error *err) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    o->align = page;
    o->private_from = UINT64_MAX;
    for (unsigned i = 0; i < in->header.e_phnum; i++) {
        const Elf64_Phdr *s = &in->segment[i];
        if (s->p_type != PT_LOAD)
            continue;
        if (s->p_filesz > s->p_memsz || s->p_memsz > LARGEST_SPAN || s->p_vaddr > LARGEST_SPAN ||
            (s->p_align & (s->p_align - 1)) || s->p_align > (1u << 30))
            return bad(o, "a segment with impossible sizes", err);
        if (s->p_vaddr + s->p_memsz > o->end)
            o->end = s->p_vaddr + s->p_memsz;
        if (s->p_align > o->align)
            o->align = s->p_align;
        if (s->p_flags & PF_W && s->p_vaddr / page * page < o->private_from)
            o->private_from = s->p_vaddr / page * page;
    }
    o->span = (o->end + page - 1) / page * page;
    if (o->private_from > o->span)
        o->private_from = o->span;
    if (!o->span)
        return bad(o, "nothing in it is to be loaded", err);
    return SPIN_OK;
}

static int read_segments(struct object *o, const struct input *in, struct spin_error *err) {
    o->content = mmap(NULL, o->span, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (o->content == MAP_FAILED) {
        o->content = NULL;
        return spin_fail(err, SPIN_ENOMEM, "%s: no address space for %llu bytes", o->path,
                         (unsigned long long)o->span);
    }
    for (unsigned i = 0; i < in->header.e_phnum; i++) {
        const Elf64_Phdr *s = &in->segment[i];
        if (s->p_type == PT_LOAD && !read_at(in, o->content + s->p_vaddr, s->p_filesz, s->p_offset))
            return bad(o, "a segment is cut off", err);
        if (s->p_type == PT_LOAD && s->p_filesz && s->p_vaddr + s->p_filesz > o->valued_to)
            o->valued_to = s->p_vaddr + s->p_filesz;
        if (s->p_type == PT_LOAD && s->p_flags & PF_X && s->p_vaddr + s->p_memsz > o->private_from)
            o->private_code = true;
        if (s->p_type == PT_DYNAMIC) {
            o->dynamic = s->p_vaddr;
            o->dynamic_count = s->p_memsz / sizeof(Elf64_Dyn);
        }
        if (s->p_type == PT_GNU_EH_FRAME && object_at(o, s->p_vaddr, s->p_memsz))
            o->frames = s->p_vaddr;
        if (s->p_type != PT_TLS)
            continue;
        if (s->p_filesz > s->p_memsz || s->p_memsz > LARGEST_SPAN || s->p_align > 4096 ||
            (s->p_align & (s->p_align - 1)) || !object_at(o, s->p_vaddr, s->p_filesz))
            return bad(o, "thread-local variables outside of its segments", err);
        o->tls = s->p_vaddr;
        o->tls_valued = s->p_filesz;
        o->tls_bytes = s->p_memsz;
        o->tls_align = s->p_align ? s->p_align : 1;
    }
    return SPIN_OK;
}

/* Tables that are read where they lie. */
static void *table_at(const struct object *o, uint64_t at, uint64_t bytes, uint64_t align) {
    return at % align ? NULL : object_at(o, at, bytes);
}

/* ---- the dynamic section ----------------------------------------------------------------------
 */

static uint64_t value_of(const struct object *o, int64_t tag) {
    const Elf64_Dyn *d = object_at(o, o->dynamic, o->dynamic_count * sizeof *d);
    for (uint64_t i = 0; i < o->dynamic_count && d[i].d_tag != DT_NULL; i++)
        if (d[i].d_tag == tag)
            return d[i].d_un.d_val;
    return 0;
}

static const char *string_at(const struct object *o, uint64_t at) {
    return at < o->string_bytes ? o->strings + at : "";
}

/* How many symbols there are is told by the hash tables alone. */
/* No more than `most` and one: what a file says may lead through all of a large, empty span. */
static uint64_t count_symbols(const struct object *o, uint64_t file_bytes, uint64_t most) {
    uint64_t table = value_of(o, DT_HASH);
    const uint32_t *word = table ? table_at(o, table, 8, 4) : NULL;
    if (word)
        return word[1];
    table = value_of(o, DT_GNU_HASH);
    word = table ? table_at(o, table, 16, 4) : NULL;
    if (!word || !word[0])
        return 0;
    if (word[0] > file_bytes / sizeof *word)
        return most + 1;
    uint64_t buckets = table + 16 + 8ull * word[2], chains = buckets + 4ull * word[0];
    const uint32_t *bucket = object_at(o, buckets, 4ull * word[0]), *chain;
    uint32_t last = 0, first = word[1];
    for (uint32_t i = 0; bucket && i < word[0]; i++)
        last = bucket[i] > last ? bucket[i] : last;
    if (!bucket || last < first)
        return first;
    do {
        chain = object_at(o, chains + 4ull * (last - first), 4);
        last++;
    } while (chain && !(*chain & 1) && last <= most);
    return last;
}

static int check_tables(struct object *o, uint64_t file_bytes, struct spin_error *err) {
    struct object_table *const all[] = {&o->relocations[0], &o->relocations[1], &o->packed,
                                        &o->init_array, &o->fini_array};
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!object_at(o, all[i]->at, all[i]->bytes) || all[i]->at % 8 ||
            all[i]->bytes > file_bytes)
            return bad(o, "a table of its dynamic section is outside of it", err);
    if (o->init >= o->span || o->fini >= o->span)
        return bad(o, "its initialisation is outside of it", err);
    return SPIN_OK;
}

/* Its tables are in the file, and so not larger than that. */
static int read_dynamic(struct object *o, uint64_t file_bytes, struct spin_error *err) {
    const uint64_t most_symbols = file_bytes / sizeof(Elf64_Sym);
    if (!o->dynamic_count || !table_at(o, o->dynamic, o->dynamic_count * sizeof(Elf64_Dyn), 8))
        return bad(o, "it has no dynamic section", err);
    if (value_of(o, DT_FLAGS_1) & DF_1_PIE)
        return bad(o, "it is an executable", err);
    if (value_of(o, DT_TEXTREL) || value_of(o, DT_FLAGS) & DF_TEXTREL)
        return bad(o, "its code is not position independent", err);
    if (value_of(o, DT_PLTREL) && value_of(o, DT_PLTREL) != DT_RELA)
        return bad(o, "relocations of an unknown kind", err);
    o->string_bytes = value_of(o, DT_STRSZ);
    o->strings = object_at(o, value_of(o, DT_STRTAB), o->string_bytes);
    if (!o->strings || !o->string_bytes || o->strings[o->string_bytes - 1])
        return bad(o, "its names are cut off", err);
    uint64_t symbols = count_symbols(o, file_bytes, most_symbols);
    if (symbols > most_symbols || symbols > UINT32_MAX)
        return bad(o, "its symbols are cut off", err);
    o->symbol_count = (uint32_t)symbols;
    o->symbols = table_at(o, value_of(o, DT_SYMTAB), o->symbol_count * sizeof(Elf64_Sym), 8);
    if (!o->symbols)
        return bad(o, "its symbols are cut off", err);
    uint64_t versions = value_of(o, DT_VERSYM);
    o->versions = versions ? table_at(o, versions, 2ull * o->symbol_count, 2) : NULL;
    o->needed_versions = value_of(o, DT_VERNEED);
    o->relocations[0] = (struct object_table){value_of(o, DT_RELA), value_of(o, DT_RELASZ)};
    o->relocations[1] = (struct object_table){value_of(o, DT_JMPREL), value_of(o, DT_PLTRELSZ)};
    o->packed = (struct object_table){value_of(o, DT_RELR), value_of(o, DT_RELRSZ)};
    o->init_array = (struct object_table){value_of(o, DT_INIT_ARRAY), value_of(o, DT_INIT_ARRAYSZ)};
    o->fini_array = (struct object_table){value_of(o, DT_FINI_ARRAY), value_of(o, DT_FINI_ARRAYSZ)};
    o->init = value_of(o, DT_INIT);
    o->fini = value_of(o, DT_FINI);
    uint64_t search = value_of(o, DT_RUNPATH) ? value_of(o, DT_RUNPATH) : value_of(o, DT_RPATH);
    o->search = search ? string_at(o, search) : NULL;
    return check_tables(o, file_bytes, err);
}

int object_read(struct object *o, const char *path, struct spin_error *err) {
    *o = (struct object){.path = strdup(path)};
    struct input in = {.file = open(path, O_RDONLY | O_CLOEXEC)};
    struct stat status;
    int code = SPIN_OK;
    if (!o->path)
        code = spin_fail(err, SPIN_ENOMEM, "out of memory");
    else if (in.file < 0 || fstat(in.file, &status) != 0)
        code = spin_fail(err, SPIN_EFILE, "%s: cannot open program: %s", path, strerror(errno));
    else if (S_ISDIR(status.st_mode))
        code = spin_fail(err, SPIN_EFILE, "%s: cannot open program: %s", path, strerror(EISDIR));
    else
        in.bytes = (uint64_t)status.st_size;
    if (!code)
        code = read_header(o, &in, err);
    if (!code)
        code = lay_out(o, &in, err);
    if (!code)
        code = read_segments(o, &in, err);
    if (!code)
        code = read_dynamic(o, in.bytes, err);
    free(in.segment);
    if (in.file >= 0)
        close(in.file);
    if (code)
        object_free(o);
    return code;
}

void object_free(struct object *o) {
    if (o->content)
        munmap(o->content, o->span);
    free(o->path);
    *o = (struct object){0};
}

/* ---- what is asked of it ----------------------------------------------------------------------
 */

const char *object_needs(const struct object *o, uint32_t i) {
    const Elf64_Dyn *d = object_at(o, o->dynamic, o->dynamic_count * sizeof *d);
    for (uint64_t k = 0; k < o->dynamic_count && d[k].d_tag != DT_NULL; k++)
        if (d[k].d_tag == DT_NEEDED && i-- == 0)
            return string_at(o, d[k].d_un.d_val);
    return NULL;
}

const char *object_symbol_name(const struct object *o, uint32_t symbol) {
    return symbol < o->symbol_count ? string_at(o, o->symbols[symbol].st_name) : "";
}

const char *object_symbol_version(const struct object *o, uint32_t symbol) {
    uint16_t wanted = o->versions && symbol < o->symbol_count ? o->versions[symbol] & 0x7fff : 0;
    uint64_t at = o->needed_versions;
    const Elf64_Verneed *need;
    while (wanted > 1 && at && (need = table_at(o, at, sizeof *need, 4))) {
        uint64_t aux = at + need->vn_aux;
        for (unsigned i = 0; i < need->vn_cnt; i++) {
            const Elf64_Vernaux *a = table_at(o, aux, sizeof *a, 4);
            if (!a)
                return NULL;
            if ((a->vna_other & 0x7fff) == wanted)
                return string_at(o, a->vna_name);
            aux += a->vna_next;
        }
        if (!need->vn_next)
            break;
        at += need->vn_next;
    }
    return NULL;
}

bool object_defines(const struct object *o, uint32_t symbol) {
    const Elf64_Sym *s = &o->symbols[symbol];
    unsigned seen = ELF64_ST_VISIBILITY(s->st_other);
    return s->st_shndx != SHN_UNDEF && ELF64_ST_BIND(s->st_info) != STB_LOCAL &&
           (seen == STV_DEFAULT || seen == STV_PROTECTED);
}

const char *object_function(const struct object *o, uint64_t at) {
    for (uint32_t i = 1; i < o->symbol_count; i++) {
        const Elf64_Sym *s = &o->symbols[i];
        if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && object_defines(o, i) && at >= s->st_value &&
            at - s->st_value < s->st_size)
            return object_symbol_name(o, i);
    }
    return "";
}
