/* A heap of records in an array, the least first, as code for one type of record:
 *
 *     MINHEAP(deadlines, struct deadline, earlier)
 *     struct deadlines d = {0};
 *     if (!deadlines_push(&d, &deadline))  -- no memory; the heap is as before
 *     while (d.count && d.at[0].time <= now)
 *         deadlines_pop(&d, &deadline);
 *     free(d.at);
 *
 * `earlier(a, b)` takes two const pointers. Four children per node: half the levels of a binary
 * heap, and the children are neighbours in memory. */
#ifndef SPIN_BASE_MINHEAP_H
#define SPIN_BASE_MINHEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define MINHEAP(name, type, earlier)                                                               \
    struct name {                                                                                  \
        type *at;                                                                                  \
        size_t count, room;                                                                        \
    };                                                                                             \
                                                                                                   \
    static bool name##_push(struct name *heap, const type *record) {                               \
        if (heap->count == heap->room) {                                                           \
            size_t room = heap->room ? 2 * heap->room : 64;                                        \
            type *larger = realloc(heap->at, room * sizeof *larger);                               \
            if (!larger)                                                                           \
                return false;                                                                      \
            heap->at = larger;                                                                     \
            heap->room = room;                                                                     \
        }                                                                                          \
        size_t place = heap->count++;                                                              \
        for (; place > 0 && earlier(record, &heap->at[(place - 1) / 4]); place = (place - 1) / 4)  \
            heap->at[place] = heap->at[(place - 1) / 4];                                           \
        heap->at[place] = *record;                                                                 \
        return true;                                                                               \
    }                                                                                              \
                                                                                                   \
    static void name##_pop(struct name *heap, type *first) {                                       \
        *first = heap->at[0];                                                                      \
        type last = heap->at[--heap->count];                                                       \
        size_t place = 0, count = heap->count;                                                     \
        for (;;) {                                                                                 \
            size_t child = 4 * place + 1, least = child;                                           \
            if (child >= count)                                                                    \
                break;                                                                             \
            for (size_t i = child + 1; i < child + 4 && i < count; i++)                            \
                if (earlier(&heap->at[i], &heap->at[least]))                                       \
                    least = i;                                                                     \
            if (!earlier(&heap->at[least], &last))                                                 \
                break;                                                                             \
            heap->at[place] = heap->at[least];                                                     \
            place = least;                                                                         \
        }                                                                                          \
        heap->at[place] = last;                                                                    \
    }                                                                                              \
    _Static_assert(sizeof(struct name) > 0, "a semicolon may follow")

#endif
