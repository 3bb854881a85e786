/* Tests whose children make threads: a child of a process with threads cannot under the thread
 * sanitizer. */
#ifndef TESTS_NEED_FORK_H
#define TESTS_NEED_FORK_H

#if defined(__SANITIZE_THREAD__)
#define NO_FORK 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NO_FORK 1
#endif
#endif
#ifdef NO_FORK
#define NEED_FORK TEST_SKIP("the thread sanitizer allows no threads after fork")
#else
#define NEED_FORK
#endif

#endif
