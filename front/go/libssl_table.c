//go:build cgo && unix

// What every other file uses: the functions of libssl, its errors, and what is there of ours.

#include <stdio.h>
#include <string.h>

#include "libssl_table.h"

struct fip_functions ossl;

static int64_t counters[3];

void fip_count(int which, int64_t by) { __atomic_add_fetch(&counters[which], by, __ATOMIC_RELAXED); }

void fip_counters(int64_t *conns, int64_t *contexts, int64_t *sessions) {
    *conns = __atomic_load_n(&counters[FIP_COUNT_CONN], __ATOMIC_RELAXED);
    *contexts = __atomic_load_n(&counters[FIP_COUNT_CONTEXT], __ATOMIC_RELAXED);
    *sessions = __atomic_load_n(&counters[FIP_COUNT_SESSION], __ATOMIC_RELAXED);
}

unsigned long fip_drain_errors(char *text, size_t text_len) {
    unsigned long first = 0, code;
    size_t used = 0;
    if (text_len > 0) text[0] = 0;
    while ((code = ossl.ERR_get_error()) != 0) {
        if (first == 0) first = code;
        const char *library = ossl.ERR_lib_error_string(code);
        const char *reason = ossl.ERR_reason_error_string(code);
        if (used + 1 >= text_len) continue; // the queue is emptied all the same
        char number[32];
        snprintf(number, sizeof(number), "error 0x%lx", code);
        // Several entries often give the same reason; say it once.
        if (reason != NULL && strstr(text, reason) != NULL) continue;
        int wrote = snprintf(text + used, text_len - used, "%s%s%s%s", used ? "; " : "",
                             reason && library ? library : "", reason && library ? ": " : "",
                             reason ? reason : number);
        used = wrote < 0 || (size_t)wrote >= text_len - used ? text_len - 1 : used + (size_t)wrote;
    }
    return first;
}
