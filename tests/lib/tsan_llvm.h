/* For tests in which threads compile: LLVM is not built for the thread sanitizer, which sees its
 * locks and not what orders them. */
#ifndef TESTS_LIB_TSAN_LLVM_H
#define TESTS_LIB_TSAN_LLVM_H

#if defined __has_feature
#if __has_feature(thread_sanitizer)
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) {
    return "called_from_lib:libLLVM-14.so\n";
}
#endif
#endif

#endif
