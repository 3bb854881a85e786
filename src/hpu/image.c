/* Loads an image: an RV32 ELF from anywhere, trusted in nothing. Every offset is checked before it
 * is followed; what is refused is refused with file, place, limit and value. */
#include "hpu/image.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "hpu/isa.h"
#include "hpu/map.h"
#include "spin/driver.h"

#define IMAGE_ABI      2
#define MOST_FUNCTIONS 65536

#ifndef EF_RISCV_RVE
#define EF_RISCV_RVE 8
#endif

/* Checks that keep reading: `file`, and the ELF header copied out (nothing need be aligned). */
struct reader {
    struct spin_image *image;
    struct spin_error *err;
    Elf32_Ehdr header;
};

#define REFUSE(r, code, ...) spin_fail((r)->err, code, __VA_ARGS__)

void spin_limits_default(struct spin_limits *limits) {
    *limits = (struct spin_limits){.program_bytes = MAP_PROGRAM_SIZE,
                                   .handler_bytes = MAP_L2_HANDLER_SIZE,
                                   .state_bytes = MAP_L1_SCRATCH_SIZE,
                                   .hpus = MAP_CLUSTERS * MAP_CLUSTER_HPUS};
}

static const void *at(const struct reader *r, uint64_t offset, uint64_t bytes) {
    if (offset > r->image->file_bytes || bytes > r->image->file_bytes - offset)
        return NULL;
    return r->image->file + offset;
}

static int check_header(struct reader *r) {
    const char *path = r->image->path;
    const void *start = at(r, 0, sizeof r->header);
    if (!start || memcmp(start, ELFMAG, SELFMAG) != 0)
        return REFUSE(r, SPIN_EFORMAT, "%s: not an ELF file; make one with 'openspin cc'", path);
    memcpy(&r->header, start, sizeof r->header);
    const Elf32_Ehdr *h = &r->header;
    if (h->e_ident[EI_CLASS] != ELFCLASS32)
        return REFUSE(r, SPIN_EFORMAT, "%s: ELF class is %d bit, a handler image is 32 bit", path,
                      h->e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 0);
    if (h->e_ident[EI_DATA] != ELFDATA2LSB)
        return REFUSE(r, SPIN_EFORMAT, "%s: ELF is not little-endian", path);
    if (h->e_machine != EM_RISCV)
        return REFUSE(r, SPIN_EFORMAT, "%s: ELF machine is %u, expected %u (RISC-V)", path,
                      h->e_machine, EM_RISCV);
    if (h->e_type == ET_REL)
        return REFUSE(r, SPIN_EFORMAT, "%s: is not linked (an object file); use 'openspin cc'",
                      path);
    if (h->e_type != ET_EXEC)
        return REFUSE(r, SPIN_EFORMAT, "%s: ELF type is %u, expected %u (executable)", path,
                      h->e_type, ET_EXEC);
    if (h->e_flags & EF_RISCV_RVE)
        return REFUSE(r, SPIN_EFORMAT, "%s: compiled for RV32E, the card is RV32I", path);
    unsigned abi = h->e_flags & EF_RISCV_FLOAT_ABI;
    if (abi != EF_RISCV_FLOAT_ABI_SOFT && abi != EF_RISCV_FLOAT_ABI_SINGLE)
        return REFUSE(r, SPIN_EFORMAT, "%s: flags 0x%x: double or quad floats in registers", path,
                      h->e_flags);
    if (abi == EF_RISCV_FLOAT_ABI_SINGLE && !r->image->limits.with_float)
        return REFUSE(r, SPIN_EFORMAT,
                      "%s: passes floats in registers, this card has no F; compile without --float",
                      path);
    if (h->e_phnum && h->e_phentsize != sizeof(Elf32_Phdr))
        return REFUSE(r, SPIN_EFORMAT, "%s: program headers of %u bytes, expected %zu", path,
                      h->e_phentsize, sizeof(Elf32_Phdr));
    if (h->e_shnum && h->e_shentsize != sizeof(Elf32_Shdr))
        return REFUSE(r, SPIN_EFORMAT, "%s: section headers of %u bytes, expected %zu", path,
                      h->e_shentsize, sizeof(Elf32_Shdr));
    if (!at(r, h->e_phoff, (uint64_t)h->e_phnum * sizeof(Elf32_Phdr)) ||
        !at(r, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf32_Shdr)))
        return REFUSE(r, SPIN_EFORMAT, "%s: truncated: header tables past the end of the file",
                      path);
    return SPIN_OK;
}

static Elf32_Shdr section(const struct reader *r, unsigned index) {
    Elf32_Shdr s = {0};
    if (index < r->header.e_shnum)
        memcpy(&s, at(r, r->header.e_shoff + index * sizeof s, sizeof s), sizeof s);
    return s;
}

static bool within(uint32_t address, uint32_t bytes, uint32_t base, uint32_t room) {
    return address >= base && address - base <= room && bytes <= room - (address - base);
}

/* Linkers fill the last page of the code, so that nothing else of the file is executable there.
 * What no section has is not code: it takes no program memory. Without sections all of it counts.
 */
static uint32_t bytes_in_sections(const struct reader *r, const Elf32_Phdr *p) {
    uint32_t used = 0;
    for (unsigned i = 0; i < r->header.e_shnum; i++) {
        Elf32_Shdr s = section(r, i);
        if (s.sh_flags & SHF_ALLOC && within(s.sh_addr, s.sh_size, p->p_vaddr, p->p_memsz) &&
            s.sh_addr - p->p_vaddr + s.sh_size > used)
            used = s.sh_addr - p->p_vaddr + s.sh_size;
    }
    return used ? used : p->p_memsz;
}

static int take_segment(struct reader *r, const Elf32_Phdr *p, struct image_segment *to,
                        const char *what, uint32_t base, uint32_t room, const char *memory) {
    const char *path = r->image->path;
    if (to->bytes)
        return REFUSE(r, SPIN_EFORMAT, "%s: a second %s segment at 0x%x; one is the limit", path,
                      what, p->p_vaddr);
    if (p->p_filesz > p->p_memsz || !at(r, p->p_offset, p->p_filesz))
        return REFUSE(r, SPIN_EFORMAT, "%s: truncated: %s segment at 0x%x is not in the file", path,
                      what, p->p_vaddr);
    if (p->p_vaddr < base || p->p_vaddr - base >= 0x00400000)
        return REFUSE(r, SPIN_EFORMAT, "%s: %s segment at 0x%x is not in %s (at 0x%x)", path, what,
                      p->p_vaddr, memory, base);
    if (!within(p->p_vaddr, p->p_memsz, base, room))
        return REFUSE(r, SPIN_ELIMIT, "%s: %s ends at %u bytes, the card's %s has %u bytes", path,
                      what, p->p_vaddr - base + p->p_memsz, memory, room);
    *to = (struct image_segment){.address = p->p_vaddr,
                                 .bytes = p->p_memsz,
                                 .filled = p->p_filesz,
                                 .content = at(r, p->p_offset, p->p_filesz)};
    return SPIN_OK;
}

static bool overlap(const struct image_segment *a, const struct image_segment *b) {
    return a->bytes && b->bytes && a->address < b->address + b->bytes &&
           b->address < a->address + a->bytes;
}

static int load_segments(struct reader *r) {
    struct spin_image *im = r->image;
    for (unsigned i = 0; i < r->header.e_phnum; i++) {
        Elf32_Phdr p;
        memcpy(&p, at(r, r->header.e_phoff + i * sizeof p, sizeof p), sizeof p);
        if (p.p_type != PT_LOAD || p.p_memsz == 0)
            continue;
        int code;
        if ((p.p_flags & PF_X) && (p.p_flags & PF_W))
            code = REFUSE(r, SPIN_EFORMAT, "%s: segment at 0x%x is writable and executable",
                          im->path, p.p_vaddr);
        else if (p.p_flags & PF_X) {
            uint32_t used = bytes_in_sections(r, &p);
            p.p_filesz = p.p_filesz == p.p_memsz ? used : p.p_filesz;
            p.p_memsz = used;
            code = take_segment(r, &p, &im->code, "code", MAP_PROGRAM, im->limits.program_bytes,
                                "program memory");
        } else {
            bool data = p.p_flags & PF_W, placed = data && p.p_vaddr >= MAP_L2_HANDLER_DATA;
            code = take_segment(r, &p,
                                placed ? &im->handler_data
                                : data ? &im->data
                                       : &im->constants,
                                placed ? ".l2_handler_data"
                                : data ? "data"
                                       : "constants",
                                MAP_L2_HANDLER, im->limits.handler_bytes, "L2 handler memory");
        }
        if (code)
            return code;
    }
    if (!im->code.bytes)
        return REFUSE(r, SPIN_EFORMAT, "%s: no code in it", im->path);
    if (im->code.bytes != im->code.filled || (im->code.address | im->code.bytes) & 1)
        return REFUSE(r, SPIN_EFORMAT, "%s: code segment at 0x%x has an odd size or a hole",
                      im->path, im->code.address);
    const struct image_segment *in_l2[] = {&im->constants, &im->data, &im->handler_data};
    for (int i = 0; i < 3; i++)
        if (in_l2[i]->bytes && in_l2[i]->address % 8)
            return REFUSE(r, SPIN_EFORMAT,
                          "%s: the segment at 0x%x does not begin at a multiple of 8, which atomic "
                          "accesses need; link it as 'openspin cc' does",
                          im->path, in_l2[i]->address);
    for (int i = 0; i < 3; i++)
        for (int k = i + 1; k < 3; k++)
            if (overlap(in_l2[i], in_l2[k]))
                return REFUSE(r, SPIN_EFORMAT, "%s: segments at 0x%x and 0x%x overlap", im->path,
                              in_l2[i]->address, in_l2[k]->address);
    return SPIN_OK;
}

static bool ends_with(const char *name, const char *ending) {
    size_t n = strlen(name), e = strlen(ending);
    return n >= e && strcmp(name + n - e, ending) == 0;
}

static enum spin_handler_kind kind_by_name(const char *name) {
    static const struct {
        const char *ending;
        enum spin_handler_kind kind;
    } endings[] = {
        {"header_handler", SPIN_HEADER_HANDLER},
        {"_hh", SPIN_HEADER_HANDLER},
        {"payload_handler", SPIN_PAYLOAD_HANDLER},
        {"_ph", SPIN_PAYLOAD_HANDLER},
        {"completion_handler", SPIN_COMPLETION_HANDLER},
        {"cleanup_handler", SPIN_CLEANUP_HANDLER},
        {"_ch", SPIN_COMPLETION_HANDLER},
        {"_th", SPIN_COMPLETION_HANDLER},
    };
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (ends_with(name, endings[i].ending))
            return endings[i].kind;
    return SPIN_OTHER_FUNCTION;
}

/* A string of the table that `strings` describes, NULL if it is not wholly inside. */
static const char *string_at(const struct reader *r, const Elf32_Shdr *strings, uint32_t offset) {
    const char *table = at(r, strings->sh_offset, strings->sh_size);
    if (!table || offset >= strings->sh_size ||
        !memchr(table + offset, 0, strings->sh_size - offset))
        return NULL;
    return table + offset;
}

/* A name as it is shown (base/text.h), whatever the file holds. NULL: no memory. */
const char *image_name(struct spin_image *im, const char *name) {
    if (text_is_plain(name))
        return name;
    char *shown = text_shown(name);
    for (size_t i = im->name_count; shown && i > 0 && i + 4 > im->name_count; i--)
        if (strcmp(im->names[i - 1], shown) == 0) { /* the same lines are asked for again */
            free(shown);
            return im->names[i - 1];
        }
    char **larger = shown ? realloc(im->names, (im->name_count + 1) * sizeof *larger) : NULL;
    if (!larger) {
        free(shown);
        return NULL;
    }
    im->names = larger;
    im->names[im->name_count++] = shown;
    return shown;
}

/* Where data begins in the code, and code again ($d and $x of the RISC-V ABI). */
static bool is_mapping(const char *name) {
    return name[0] == '$' && (name[1] == 'd' || name[1] == 'x') && (!name[2] || name[2] == '.');
}

static int note_mapping(struct reader *r, const Elf32_Sym *s, const char *name) {
    struct spin_image *im = r->image;
    if (im->mark_count % 64 == 0) {
        struct image_mark *larger = realloc(im->marks, (im->mark_count + 64) * sizeof *larger);
        if (!larger)
            return REFUSE(r, SPIN_ENOMEM, "%s: out of memory", im->path);
        im->marks = larger;
    }
    im->marks[im->mark_count++] =
        (struct image_mark){.address = s->st_value, .is_data = name[1] == 'd'};
    return SPIN_OK;
}

static int take_symbol(struct reader *r, const Elf32_Sym *s, const char *name) {
    struct spin_image *im = r->image;
    unsigned type = ELF32_ST_TYPE(s->st_info), bind = ELF32_ST_BIND(s->st_info);
    if (s->st_shndx == SHN_UNDEF) {
        if (name[0] && bind != STB_WEAK)
            return REFUSE(r, SPIN_EFORMAT, "%s: undefined symbol '%s'", im->path, name);
        return SPIN_OK;
    }
    if (is_mapping(name) && type == STT_NOTYPE)
        return note_mapping(r, s, name);
    if (type != STT_FUNC || !within(s->st_value, s->st_size, im->code.address, im->code.bytes) ||
        s->st_value & 1)
        return SPIN_OK;
    if (im->info.functions == MOST_FUNCTIONS)
        return REFUSE(r, SPIN_ELIMIT, "%s: more than %d functions", im->path, MOST_FUNCTIONS);
    const char *shown = image_name(im, name);
    if (!shown)
        return REFUSE(r, SPIN_ENOMEM, "%s: out of memory", im->path);
    im->functions[im->info.functions++] = (struct spin_function){
        .name = shown,
        .address = s->st_value,
        .bytes = s->st_size,
        .kind = kind_by_name(name),
        .is_global = bind != STB_LOCAL && ELF32_ST_VISIBILITY(s->st_other) == STV_DEFAULT,
    };
    return SPIN_OK;
}

static int by_address(const void *a, const void *b) {
    const struct spin_function *p = a, *q = b;
    if (p->address != q->address)
        return p->address < q->address ? -1 : 1;
    return strcmp(p->name, q->name);
}

static int load_symbols(struct reader *r) {
    struct spin_image *im = r->image;
    Elf32_Shdr table = {0}, strings = {0}, names = section(r, r->header.e_shstrndx);
    for (unsigned i = 0; i < r->header.e_shnum; i++) {
        Elf32_Shdr s = section(r, i);
        const char *name = string_at(r, &names, s.sh_name);
        if (s.sh_type == SHT_SYMTAB) {
            table = s;
            strings = section(r, s.sh_link);
        }
        if (s.sh_type == SHT_INIT_ARRAY && s.sh_size)
            return REFUSE(r, SPIN_EFORMAT,
                          "%s: has static constructors (%u bytes of .init_array), which do not run "
                          "on a card",
                          im->path, s.sh_size);
        if (name && strncmp(name, ".debug_line", 11) == 0)
            im->info.has_lines = true;
    }
    uint32_t count = table.sh_size / sizeof(Elf32_Sym);
    const uint8_t *symbols = at(r, table.sh_offset, table.sh_size);
    if (!table.sh_type || !symbols || table.sh_entsize != sizeof(Elf32_Sym))
        return REFUSE(r, SPIN_EFORMAT, "%s: no symbol table, so no handler can be named", im->path);
    im->functions =
        calloc((count < MOST_FUNCTIONS ? count : MOST_FUNCTIONS) + 1, sizeof *im->functions);
    if (!im->functions)
        return REFUSE(r, SPIN_ENOMEM, "%s: out of memory", im->path);
    for (uint32_t i = 0; i < count; i++) {
        Elf32_Sym s;
        memcpy(&s, symbols + i * sizeof s, sizeof s);
        const char *name = string_at(r, &strings, s.st_name);
        if (!name)
            return REFUSE(r, SPIN_EFORMAT, "%s: symbol %u has no name in the string table",
                          im->path, i);
        int code = take_symbol(r, &s, name);
        if (code)
            return code;
    }
    qsort(im->functions, im->info.functions, sizeof *im->functions, by_address);
    im->info.function = im->functions;
    return SPIN_OK;
}

/* The note that every handler.h leaves: the interface, its version and PTL_NUM_HPUS. */
static int check_note(struct reader *r) {
    struct spin_image *im = r->image;
    struct {
        Elf32_Nhdr head;
        char name[8];
        uint32_t abi, hpus;
    } note;
    for (unsigned i = 0; i < r->header.e_phnum; i++) {
        Elf32_Phdr p;
        memcpy(&p, at(r, r->header.e_phoff + i * sizeof p, sizeof p), sizeof p);
        const void *content = at(r, p.p_offset, sizeof note);
        if (p.p_type != PT_NOTE || p.p_filesz < sizeof note || !content)
            continue;
        memcpy(&note, content, sizeof note);
        if (note.head.n_namesz != 8 || memcmp(note.name, "openspn", 8) != 0)
            continue;
        if (note.head.n_type != SPIN_NOTE_P4SPIN && note.head.n_type != SPIN_NOTE_PSPIN)
            return REFUSE(r, SPIN_EFORMAT,
                          "%s: compiled for handler interface %u, this card has %d (P4sPIN) and %d "
                          "(PsPIN)",
                          im->path, note.head.n_type, SPIN_NOTE_P4SPIN, SPIN_NOTE_PSPIN);
        if (note.abi != IMAGE_ABI)
            return REFUSE(r, SPIN_EFORMAT,
                          "%s: compiled for version %u of the handler interface, this card has %d; "
                          "compile it again",
                          im->path, note.abi, IMAGE_ABI);
        im->info.is_pspin = note.head.n_type == SPIN_NOTE_PSPIN;
        im->info.hpus = note.hpus;
        if (note.hpus < im->limits.hpus)
            return REFUSE(r, SPIN_ELIMIT,
                          "%s: compiled for %u HPUs (PTL_NUM_HPUS), the card has %u; compile with "
                          "-DPTL_NUM_HPUS=%u",
                          im->path, note.hpus, im->limits.hpus, im->limits.hpus);
    }
    if (im->handler_data.bytes && !im->info.is_pspin)
        return REFUSE(r, SPIN_EFORMAT, "%s: has .l2_handler_data, which only PsPIN handlers have",
                      im->path);
    return SPIN_OK;
}

static int load(struct spin_image *im, struct spin_error *err) {
    struct reader r = {.image = im, .err = err};
    int code = check_header(&r);
    if (!code)
        code = load_segments(&r);
    if (!code)
        code = load_symbols(&r);
    if (!code)
        code = image_check_code(im, err);
    if (!code)
        code = check_note(&r);
    im->info.code_bytes = im->code.bytes;
    im->info.constant_bytes = im->constants.bytes;
    im->info.data_bytes = im->data.filled + im->handler_data.filled;
    im->info.zero_bytes = im->data.bytes + im->handler_data.bytes - im->info.data_bytes;
    return code;
}

/* Takes over `file`. */
static int adopt(struct spin_image **out, const char *name, uint8_t *file, size_t length,
                 const struct spin_limits *limits, struct spin_error *err) {
    *out = NULL;
    struct spin_image *im = calloc(1, sizeof *im);
    if (im)
        im->path = text_shown(name);
    if (!im || !im->path) {
        free(file);
        free(im);
        return spin_fail(err, SPIN_ENOMEM, "%s: out of memory", name);
    }
    im->info.path = im->path;
    im->file = file;
    im->file_bytes = length;
    if (limits)
        im->limits = *limits;
    else
        spin_limits_default(&im->limits);
    int code = load(im, err);
    if (code)
        spin_image_free(im);
    else
        *out = im;
    return code;
}

int spin_image_load(struct spin_image **out, const char *path, const struct spin_limits *limits,
                    struct spin_error *err) {
    uint8_t *file;
    size_t length;
    *out = NULL;
    int code = file_read(path, "image", IMAGE_MOST_BYTES, &file, &length, err);
    return code ? code : adopt(out, path, file, length, limits, err);
}

int spin_image_parse(struct spin_image **out, const char *name, const void *bytes, size_t length,
                     const struct spin_limits *limits, struct spin_error *err) {
    *out = NULL;
    uint8_t *copy = malloc(length ? length : 1);
    if (!copy)
        return spin_fail(err, SPIN_ENOMEM, "%s: out of memory", name);
    memcpy(copy, bytes, length);
    return adopt(out, name, copy, length, limits, err);
}

void spin_image_free(struct spin_image *im) {
    if (!im)
        return;
    image_lines_free(im->lines);
    for (size_t i = 0; i < im->name_count; i++)
        free(im->names[i]);
    free(im->names);
    free(im->marks);
    free(im->functions);
    free(im->file);
    free(im->path);
    free(im);
}

const struct spin_image_info *spin_image_info(const struct spin_image *im) {
    return &im->info;
}

static const struct spin_function *find_global(const struct spin_image *im, const char *name) {
    for (uint32_t i = 0; i < im->info.functions; i++)
        if (im->functions[i].is_global && strcmp(im->functions[i].name, name) == 0)
            return &im->functions[i];
    return NULL;
}

int spin_image_find(const struct spin_image *im, const char *name,
                    const struct spin_function **function, struct spin_error *err) {
    *function = find_global(im, name);
    if (*function)
        return SPIN_OK;
    char list[300] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < im->info.functions; i++) {
        const struct spin_function *f = &im->functions[i];
        if (!f->is_global)
            continue;
        int n = snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", f->name);
        if (used + (size_t)n < sizeof list)
            used += (size_t)n;
        else
            list[used] = 0; /* as many as fit whole */
    }
    if (!used)
        return spin_fail(err, SPIN_EARG, "%s: no handler '%s'; it has no global function at all",
                         im->path, name);
    return spin_fail(err, SPIN_EARG, "%s: no handler '%s'; it has: %s", im->path, name, list);
}

bool image_symbol(const struct spin_image *im, const char *name, uint32_t *address,
                  uint32_t *bytes) {
    struct reader r = {.image = (struct spin_image *)(uintptr_t)im};
    memcpy(&r.header, im->file, sizeof r.header);
    for (unsigned i = 0; i < r.header.e_shnum; i++) {
        Elf32_Shdr table = section(&r, i), strings = section(&r, table.sh_link);
        const uint8_t *symbols = at(&r, table.sh_offset, table.sh_size);
        if (table.sh_type != SHT_SYMTAB || !symbols)
            continue;
        for (uint32_t k = 0; k < table.sh_size / sizeof(Elf32_Sym); k++) {
            Elf32_Sym s;
            memcpy(&s, symbols + k * sizeof s, sizeof s);
            const char *found = string_at(&r, &strings, s.st_name);
            if (s.st_shndx != SHN_UNDEF && found && strcmp(found, name) == 0) {
                *address = s.st_value;
                *bytes = s.st_size;
                return true;
            }
        }
    }
    return false;
}

const struct spin_function *spin_image_at(const struct spin_image *im, uint32_t address) {
    const struct spin_function *best = NULL; /* few functions: a walk will do */
    for (uint32_t i = 0; i < im->info.functions && im->functions[i].address <= address; i++)
        if (address - im->functions[i].address < im->functions[i].bytes)
            best = &im->functions[i];
    return best;
}

int spin_image_disassemble(const struct spin_image *im, uint32_t address, char *text, size_t room) {
    uint32_t offset = address - im->code.address;
    if (offset >= im->code.bytes || offset & 1)
        return 0;
    struct hpu_insn in = hpu_decode(image_word(im, offset), true);
    hpu_disassemble(&in, address, text, room);
    return in.length;
}

bool spin_image_line(const struct spin_image *im, uint32_t address, const char **file, int *line) {
    /* The table is made on first use; the image is otherwise unchanged. */
    return image_lines_find((struct spin_image *)(uintptr_t)im, address, file, line);
}

bool spin_image_caller(const struct spin_image *im, uint32_t address, const char **file, int *line,
                       const char **call) {
    return image_lines_caller((struct spin_image *)(uintptr_t)im, address, file, line, call);
}
