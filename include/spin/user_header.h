/* `openspin cc` includes this before everything else, so that a file may define ptl_user_header_t
 * before it includes spin/handler.h: where the name is first used it is a macro, which defines
 * PTL_USER_HEADER for the include to come and takes itself away. */
#ifndef SPIN_USER_HEADER_H
#define SPIN_USER_HEADER_H

#ifndef PTL_USER_HEADER
#define PTL_USER_HEADER
#pragma push_macro("PTL_USER_HEADER")
#undef PTL_USER_HEADER
#pragma push_macro("ptl_user_header_t")
#define ptl_user_header_t                                                                          \
    ptl_user_header_t;                                                                             \
    _Pragma("pop_macro(\"PTL_USER_HEADER\")")                                                      \
        _Pragma("pop_macro(\"ptl_user_header_t\")") struct spin_user_header
#endif

#endif
