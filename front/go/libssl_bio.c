//go:build cgo && unix

// The BIO that moves bytes between libssl and the buffers of the step that is running.

#include <stdlib.h>
#include <string.h>

#include "libssl_table.h"

static int bio_read(BIO *bio, char *buf, int len) {
    fip_conn *conn = ossl.BIO_get_data(bio);
    size_t left = conn->in_len - conn->in_used;
    ossl.BIO_clear_flags(bio, 0x0F);
    if (fip_is_flooded(conn)) return -1;
    if (conn->in == NULL || left == 0 || len <= 0) {
        ossl.BIO_set_flags(bio, 0x01 | 0x08); // BIO_FLAGS_READ, BIO_FLAGS_SHOULD_RETRY
        return -1;
    }
    size_t take = left < (size_t)len ? left : (size_t)len;
    memcpy(buf, conn->in + conn->in_used, take);
    conn->in_used += take;
    return (int)take;
}

// Takes everything, so that libssl never waits to write: what the caller's buffer can't hold goes to
// a spill of its own. A step writes little more than what it was given.
static int bio_write(BIO *bio, const char *buf, int len) {
    fip_conn *conn = ossl.BIO_get_data(bio);
    ossl.BIO_clear_flags(bio, 0x0F);
    if (len <= 0) return 0;
    if (fip_is_flooded(conn)) return -1;
    size_t size = (size_t)len;
    if (conn->out != NULL && conn->spill_len == 0 && conn->out_cap - conn->out_len >= size) {
        memcpy(conn->out + conn->out_len, buf, size);
        conn->out_len += size;
        return len;
    }
    if (conn->spill_cap - conn->spill_len < size) {
        size_t cap = conn->spill_len + size + 4096;
        unsigned char *grown = realloc(conn->spill, cap);
        if (grown == NULL) return -1;
        conn->spill = grown;
        conn->spill_cap = cap;
    }
    memcpy(conn->spill + conn->spill_len, buf, size);
    conn->spill_len += size;
    return len;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer) {
    (void)bio, (void)number, (void)pointer;
    return command == 11; // BIO_CTRL_FLUSH succeeds, there is nothing else to control
}

static BIO_METHOD *method;

int fip_bio_method_make(void) {
    method = ossl.BIO_meth_new(0x80 | 0x400, "fipstls"); // BIO_TYPE_SOURCE_SINK, a type of our own
    return method != NULL && ossl.BIO_meth_set_read(method, bio_read) == 1 &&
           ossl.BIO_meth_set_write(method, bio_write) == 1 && ossl.BIO_meth_set_ctrl(method, bio_ctrl) == 1;
}

const BIO_METHOD *fip_bio_method(void) { return method; }
