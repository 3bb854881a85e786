/* A heap of records in an array, the least first, as code for one type of record:
 *
 *     MINHEAP(deadlines, struct deadline, earlier)
 *     struct deadlines d = {0};
 *     if (!deadlines_push(&d, &deadline))  -- no memory; the heap is as before
 *     while (d.count && d.at[0].time <= now)
 *         deadlines_pop(&d, &deadline);
 *     free(d.at);
 *
 * `earlier(a, b)` takes two const pointers. MINHEAP_PLACED also tells `placed(record, place)` where
 * a record stands, whenever that changes, so that name_moved can put it right when its key has.
 * Four children per node: half the levels of a binary heap, and the children are neighbours. */
#ifndef SPIN_BASE_MINHEAP_H
#define SPIN_BASE_MINHEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define MINHEAP_NOT_PLACED(record, place) ((void)0)
#define MINHEAP(name, type, earlier)      MINHEAP_PLACED(name, type, earlier, MINHEAP_NOT_PLACED)

#define MINHEAP_PLACED(name, type, earlier, placed)                                                \
    struct name {                                                                                  \
        type *at;                                                                                  \
        size_t count, room;                                                                        \
    };                                                                                             \
                                                                                                   \
    __attribute__((unused)) static inline void name##_put(struct name *heap, size_t place,         \
                                                          type record) {                           \
        heap->at[place] = record;                                                                  \
        placed(&heap->at[place], place);                                                           \
    }                                                                                              \
                                                                                                   \
    /* A record that may belong nearer to the first than `place`. */                               \
    __attribute__((unused)) static inline void name##_up(struct name *heap, size_t place,          \
                                                         type record) {                            \
        for (; place > 0 && earlier(&record, &heap->at[(place - 1) / 4]); place = (place - 1) / 4) \
            name##_put(heap, place, heap->at[(place - 1) / 4]);                                    \
        name##_put(heap, place, record);                                                           \
    }                                                                                              \
                                                                                                   \
    /* Or further from it. */                                                                      \
    __attribute__((unused)) static inline void name##_down(struct name *heap, size_t place,        \
                                                           type record) {                          \
        for (size_t child; (child = 4 * place + 1) < heap->count;) {                               \
            size_t least = child;                                                                  \
            for (size_t i = child + 1; i < child + 4 && i < heap->count; i++)                      \
                if (earlier(&heap->at[i], &heap->at[least]))                                       \
                    least = i;                                                                     \
            if (!earlier(&heap->at[least], &record))                                               \
                break;                                                                             \
            name##_put(heap, place, heap->at[least]);                                              \
            place = least;                                                                         \
        }                                                                                          \
        name##_put(heap, place, record);                                                           \
    }                                                                                              \
                                                                                                   \
    /* For so many; false: no memory. */                                                           \
    __attribute__((unused)) static inline bool name##_room(struct name *heap, size_t records) {    \
        size_t room = heap->room ? heap->room : 4;                                                 \
        while (room < records)                                                                     \
            room *= 2;                                                                             \
        type *larger = room > heap->room ? realloc(heap->at, room * sizeof *larger) : heap->at;    \
        if (!larger)                                                                               \
            return false;                                                                          \
        heap->at = larger;                                                                         \
        heap->room = room;                                                                         \
        return true;                                                                               \
    }                                                                                              \
                                                                                                   \
    __attribute__((unused)) static inline bool name##_push(struct name *heap,                      \
                                                           type const *record) {                   \
        if (heap->count == heap->room && !name##_room(heap, heap->count + 1))                      \
            return false;                                                                          \
        name##_up(heap, heap->count++, *record);                                                   \
        return true;                                                                               \
    }                                                                                              \
                                                                                                   \
    __attribute__((unused)) static inline void name##_pop(struct name *heap, type *first) {        \
        *first = heap->at[0];                                                                      \
        if (--heap->count)                                                                         \
            name##_down(heap, 0, heap->at[heap->count]);                                           \
    }                                                                                              \
                                                                                                   \
    /* Takes the record at `place` out. */                                                         \
    __attribute__((unused)) static inline void name##_take(struct name *heap, size_t place) {      \
        type last = heap->at[--heap->count];                                                       \
        if (place == heap->count)                                                                  \
            return;                                                                                \
        if (place > 0 && earlier(&last, &heap->at[(place - 1) / 4]))                               \
            name##_up(heap, place, last);                                                          \
        else                                                                                       \
            name##_down(heap, place, last);                                                        \
    }                                                                                              \
                                                                                                   \
    /* The record at `place` has another key. */                                                   \
    __attribute__((unused)) static inline void name##_moved(struct name *heap, size_t place) {     \
        type record = heap->at[place];                                                             \
        if (place > 0 && earlier(&record, &heap->at[(place - 1) / 4]))                             \
            name##_up(heap, place, record);                                                        \
        else                                                                                       \
            name##_down(heap, place, record);                                                      \
    }                                                                                              \
    _Static_assert(sizeof(struct name) > 0, "a semicolon may follow")

#endif
