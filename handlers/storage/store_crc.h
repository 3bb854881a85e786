#ifndef STORE_CRC_H
#define STORE_CRC_H

#include <stdint.h>

/* CRC32C (Castagnoli), as iSCSI has it, of `data` and so many zeroes. */
uint32_t store_crc32c_padded(const void *data, uint64_t bytes, uint64_t zeroes);

#endif
