/* A loaded image: checked segments and symbols. */
#ifndef SPIN_HPU_IMAGE_H
#define SPIN_HPU_IMAGE_H

#include "openspin.h"

#define IMAGE_MOST_BYTES (64u << 20) /* with debug information */

struct image_segment {
    uint32_t address, bytes; /* in memory; the part past `filled` is zero */
    uint32_t filled;
    const uint8_t *content;
};

/* From here on the code segment holds data, or code again. */
struct image_mark {
    uint32_t address;
    bool is_data;
};

struct spin_image {
    struct spin_image_info info;
    struct spin_limits limits;
    char *path;
    uint8_t *file; /* the ELF, as read */
    size_t file_bytes;
    struct spin_function *functions;
    char **names; /* those that are not shown as they are in the file */
    size_t name_count;
    struct image_mark *marks;
    uint32_t mark_count;
    struct image_segment code, constants, data; /* bytes 0: not there */
    struct image_segment handler_data;          /* at MAP_L2_HANDLER_DATA, of PsPIN handlers */
    struct image_lines *lines;                  /* made when first asked for */
    bool lines_tried;
    uint32_t code_number; /* of whoever runs it: 1 + which code it has; 0 as long as nobody has */
};

/* Any symbol with that name: a function, or data. False: there is none. */
bool image_symbol(const struct spin_image *image, const char *name, uint32_t *address,
                  uint32_t *bytes);
const char *image_name(struct spin_image *image, const char *name);

/* image_check.c: SPIN_EFORMAT for code that this card cannot run; and the counts of `info`. */
int image_check_code(struct spin_image *image, struct spin_error *err);
/* The two or four bytes at an offset of the code. */
uint32_t image_word(const struct spin_image *image, uint32_t offset);

/* source_lines.c */
bool image_lines_find(struct spin_image *image, uint32_t address, const char **file, int *line);
bool image_lines_caller(struct spin_image *image, uint32_t address, const char **file, int *line,
                        const char **call);
void image_lines_free(struct image_lines *lines);

#endif
