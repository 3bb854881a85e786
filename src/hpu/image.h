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

struct spin_image {
    struct spin_image_info info;
    struct spin_limits limits;
    char *path;
    uint8_t *file; /* the ELF, as read */
    size_t file_bytes;
    struct spin_function *functions;
    struct image_segment code, constants, data; /* bytes 0: not there */
    struct image_lines *lines;                  /* made when first asked for */
    bool lines_tried;
};

/* lines.c */
bool image_lines_find(struct spin_image *image, uint32_t address, const char **file, int *line);
bool image_lines_caller(struct spin_image *image, uint32_t address, const char **file, int *line,
                        const char **call);
void image_lines_free(struct image_lines *lines);

#endif
