/* Operations where everything of a thread, or of the program, is ending: in the destructors of a second
 * thread (of a C++ thread_local and of a key of POSIX threads) and of the program (atexit, as a C++ static
 * has it, and a destructor of the program itself). Each runs after whatever the library keeps for the thread
 * was destroyed, for it was registered before. Prints a line a place. */
#include <pthread.h>

#include "operations.h"

extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);
extern void *__dso_handle;

static EVP_PKEY *keys[COUNT];
static int rounds;

static void all(const char *place) {
    where = place;
    for (size_t i = 0; i < COUNT; i++) {
        what = ALGORITHMS[i];
        if (keys[i] == NULL) keys[i] = generate(what);
        if (keys[i] == NULL || !use(what, keys[i])) wrong("no answer");
        if (strstr(what, "Falcon") == NULL && !operate(what)) wrong("no answer with a new key");
    }
    printf("%s\n", place);
    fflush(stdout);
}

static void of_thread_local(void *unused) {
    (void)unused;
    all("thread_local");
}

static pthread_key_t key;

static void of_key(void *value) {
    all("key");
    /* Once more, in the last round of destructors. */
    if (++rounds < 3) pthread_setspecific(key, value);
}

static void *thread(void *used) {
    pthread_setspecific(key, &key);
    __cxa_thread_atexit_impl(of_thread_local, NULL, &__dso_handle);
    if (used != NULL) all("thread");
    return NULL;
}

static void of_atexit(void) { all("atexit"); }

static void of_main_thread_local(void *unused) {
    (void)unused;
    all("thread_local of main");
}

int main(int argc, char **argv) {
    int is_used = argc > 1 && strcmp(argv[1], "used") == 0;
    OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CONFIG, NULL);
    pthread_key_create(&key, of_key);
    __cxa_thread_atexit_impl(of_main_thread_local, NULL, &__dso_handle);
    /* After libcrypto's own, and so before it. */
    if (atexit(of_atexit) != 0) return 1;
    if (is_used) all("main");
    pthread_t other;
    if (pthread_create(&other, NULL, thread, is_used ? &key : NULL) != 0) return 1;
    pthread_join(other, NULL);
    return 0;
}
