//go:build cgo && linux

package main

/*
#include <malloc.h>
#include <stddef.h>

static size_t held(void) {
#ifdef __GLIBC__
    struct mallinfo2 all = mallinfo2();
    return all.arena + all.hblkhd;
#else
    return 0;
#endif
}
*/
import "C"

// cHeap is how many bytes C's malloc has taken from the system, of which it seldom gives any back.
func cHeap() uint64 { return uint64(C.held()) }
