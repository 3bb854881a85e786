/* Arrays that grow by doubling, so that adding an element costs O(1) on average. */
#ifndef SPIN_BASE_GROW_H
#define SPIN_BASE_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Room for one more element in `array`, which has `count` of the `room` that it has memory for, and
 * for `first` when it has none. False: no memory, or twice the room is more than its type or size_t
 * can say; then array and room are as they were. All but `first` are evaluated more than once. */
#define ROOM_FOR_ONE(array, count, room, first)                                                    \
    ROOM_FOR_ONE_BY(grow_memory, array, count, room, first)

/* The same, by a function with the arguments of pages_grow. */
#define ROOM_FOR_ONE_BY(grow, array, count, room, first)                                           \
    ((count) < (room) || __extension__({                                                           \
         const uint64_t grow_room = (room) ? 2 * (uint64_t)(room) : (first);                       \
         const __typeof__(room) grow_told = (__typeof__(room))grow_room;                           \
         size_t grow_bytes;                                                                        \
         void *grow_larger = NULL;                                                                 \
         if (grow_told > (room) && (uint64_t)grow_told == grow_room &&                             \
             !__builtin_mul_overflow(grow_room, sizeof *(array), &grow_bytes))                     \
             grow_larger = grow((array), (size_t)(room) * sizeof *(array), grow_bytes);            \
         if (grow_larger) {                                                                        \
             (array) = grow_larger;                                                                \
             (room) = grow_told;                                                                   \
         }                                                                                         \
         grow_larger != NULL;                                                                      \
     }))

static inline void *grow_memory(void *at, size_t old, size_t bytes) {
    (void)old;
    return realloc(at, bytes);
}

#endif
