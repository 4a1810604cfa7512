/* What an operation does where the process has next to nothing to give: each cell of
 *
 *     use x condition        use: a key, a certificate or a TLS group of one family
 *
 * runs in a child of its own. Under the condition the answer is right, or OpenSSL says an error where the
 * condition takes away what the operation needs; once the condition is over the answer is right.
 *
 *     matrix FOLDER first|later [CONDITION [NAME]]
 *
 * `first` forks children that load the provider's algorithms for the first time, `later` ones whose parent
 * has used all of them. FOLDER holds NAME.key and NAME.pem of each signature, ec.key and ec.pem for TLS, and
 * plug.so. Says each cell that is wrong, and how many were right. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <openssl/async.h>
#include <openssl/decoder.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum outcome { RIGHT, ERROR, WRONG };

/* More than any cell takes, on a machine that is busy; below the driver's own limit. */
#define SECONDS 30
#define ATTEMPTS_AT_ONCE 4

static const char *folder;
static char *text_of[64];
static int texts;

/* ----- Files, read once: under a condition nothing is opened ----- */

static BIO *contents(const char *name, const char *ending) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s.%s", folder, name, ending);
    for (int i = 0; i + 1 < texts; i += 2)
        if (strcmp(text_of[i], path) == 0) return BIO_new_mem_buf(text_of[i + 1], -1);
    FILE *file = fopen(path, "r");
    if (!file || texts + 2 > 64) {
        fprintf(stderr, "%s can't be read\n", path);
        exit(2);
    }
    char *text = calloc(1, 1 << 17);
    if (!text || fread(text, 1, (1 << 17) - 1, file) == 0) exit(2);
    fclose(file);
    text_of[texts] = strdup(path);
    text_of[texts + 1] = text;
    texts += 2;
    return BIO_new_mem_buf(text, -1);
}

static EVP_PKEY *read_key(const char *name) {
    BIO *bio = contents(name, "key");
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    return key;
}

static X509 *read_certificate(const char *name) {
    BIO *bio = contents(name, "pem");
    X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    return certificate;
}

/* ----- Uses ----- */

static enum outcome signs_and_verifies(EVP_PKEY *key) {
    static const unsigned char message[] = "message", other[] = "massage";
    static _Thread_local unsigned char *signature;
    size_t len = 60000;
    enum outcome outcome = ERROR;
    EVP_MD_CTX *signer = EVP_MD_CTX_new(), *verifier = EVP_MD_CTX_new();
    signature = malloc(len);
    if (signer && verifier && signature && EVP_DigestSignInit_ex(signer, NULL, NULL, NULL, NULL, key, NULL) > 0 &&
        EVP_DigestSign(signer, signature, &len, message, sizeof message) > 0 &&
        EVP_DigestVerifyInit_ex(verifier, NULL, NULL, NULL, NULL, key, NULL) > 0) {
        int good = EVP_DigestVerify(verifier, signature, len, message, sizeof message);
        int bad = EVP_DigestVerify(verifier, signature, len, other, sizeof other);
        outcome = bad > 0 ? WRONG : good > 0 ? RIGHT : ERROR;
    }
    free(signature);
    EVP_MD_CTX_free(signer);
    EVP_MD_CTX_free(verifier);
    return outcome;
}

/* A fresh key signs, and one that is read. */
static enum outcome use_signature(const char *name) {
    EVP_PKEY *made = EVP_PKEY_Q_keygen(NULL, NULL, name);
    enum outcome outcome = made ? signs_and_verifies(made) : ERROR;
    EVP_PKEY_free(made);
    if (outcome != RIGHT || strstr(name, "FN-DSA")) return outcome; /* FN-DSA has no files yet. */
    EVP_PKEY *read = read_key(name);
    outcome = read ? signs_and_verifies(read) : ERROR;
    EVP_PKEY_free(read);
    return outcome;
}

static enum outcome use_certificate(const char *name) {
    X509 *certificate = read_certificate(name);
    EVP_PKEY *key = certificate ? X509_get0_pubkey(certificate) : NULL;
    enum outcome outcome = key && X509_verify(certificate, key) == 1 ? RIGHT : ERROR;
    X509_free(certificate);
    return outcome;
}

static enum outcome use_kem(const char *name) {
    unsigned char ct[4096], sent[256], got[256];
    size_t ct_len = sizeof ct, sent_len = sizeof sent, got_len = sizeof got;
    enum outcome outcome = ERROR;
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, name);
    EVP_PKEY_CTX *sender = key ? EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL) : NULL;
    EVP_PKEY_CTX *receiver = key ? EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL) : NULL;
    if (sender && receiver && EVP_PKEY_encapsulate_init(sender, NULL) > 0 &&
        EVP_PKEY_encapsulate(sender, ct, &ct_len, sent, &sent_len) > 0 &&
        EVP_PKEY_decapsulate_init(receiver, NULL) > 0 &&
        EVP_PKEY_decapsulate(receiver, got, &got_len, ct, ct_len) > 0)
        outcome = sent_len == got_len && memcmp(sent, got, got_len) == 0 ? RIGHT : WRONG;
    EVP_PKEY_CTX_free(sender);
    EVP_PKEY_CTX_free(receiver);
    EVP_PKEY_free(key);
    return outcome;
}

static SSL *end_of(SSL_CTX *context, BIO *bio, int is_server) {
    SSL *ssl = bio ? SSL_new(context) : NULL;
    if (!ssl) {
        BIO_free(bio);
        return NULL;
    }
    SSL_set_bio(ssl, bio, bio);
    if (is_server) SSL_set_accept_state(ssl);
    else SSL_set_connect_state(ssl);
    return ssl;
}

static SSL_CTX *context_of(const char *group, int is_server) {
    SSL_CTX *context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
    int good = context && SSL_CTX_set1_groups_list(context, group) > 0;
    if (good && is_server) {
        EVP_PKEY *key = read_key("ec");
        X509 *certificate = read_certificate("ec");
        good = key && certificate && SSL_CTX_use_certificate(context, certificate) > 0 &&
               SSL_CTX_use_PrivateKey(context, key) > 0;
        EVP_PKEY_free(key);
        X509_free(certificate);
    }
    if (!good) {
        SSL_CTX_free(context);
        return NULL;
    }
    return context;
}

static enum outcome use_group(const char *name) {
    BIO *bios[2] = {NULL, NULL};
    SSL_CTX *contexts[2] = {context_of(name, 0), context_of(name, 1)};
    SSL *ends[2] = {NULL, NULL};
    enum outcome outcome = ERROR;
    if (contexts[0] && contexts[1] && BIO_new_bio_pair(&bios[0], 1 << 15, &bios[1], 1 << 15) > 0) {
        ends[0] = end_of(contexts[0], bios[0], 0);
        ends[1] = end_of(contexts[1], bios[1], 1);
        for (int turn = 0; ends[0] && ends[1] && turn < 20; turn++) {
            int got = SSL_do_handshake(ends[turn % 2]);
            if (got <= 0 && SSL_get_error(ends[turn % 2], got) != SSL_ERROR_WANT_READ) break;
            if (SSL_is_init_finished(ends[0]) && SSL_is_init_finished(ends[1])) {
                const char *group = SSL_get0_group_name(ends[1]);
                outcome = group && strcasecmp(group, name) == 0 ? RIGHT : WRONG;
                break;
            }
        }
    }
    for (int i = 0; i < 2; i++) {
        SSL_free(ends[i]);
        SSL_CTX_free(contexts[i]);
    }
    return outcome;
}

static const struct use {
    const char *what, *name;
    enum outcome (*run)(const char *name);
} USES[] = {
    {"key", "ML-DSA-65", use_signature},
    {"key", "SLH-DSA-SHA2-128f", use_signature},
    {"key", "Falcon-512", use_signature},
    {"key", "FN-DSA-512-draft", use_signature},
    {"key", "MLDSA44-Ed25519-SHA512-draft19", use_signature},
    {"key", "MLDSA87-ECDSA-P521-SHA512-draft19", use_signature},
    {"certificate", "ML-DSA-65", use_certificate},
    {"certificate", "SLH-DSA-SHA2-128f", use_certificate},
    {"certificate", "Falcon-512", use_certificate},
    {"certificate", "MLDSA44-Ed25519-SHA512-draft19", use_certificate},
    {"certificate", "MLDSA44-RSA2048-PSS-SHA256-draft19", use_certificate},
    {"certificate", "MLDSA87-ECDSA-P521-SHA512-draft19", use_certificate},
    {"key", "ML-KEM-768", use_kem},
    {"key", "X25519MLKEM768", use_kem},
    {"key", "SecP521r1MLKEM1024", use_kem},
    {"group", "MLKEM768", use_group},
    {"group", "X25519MLKEM768", use_group},
    {"group", "SecP384r1MLKEM1024", use_group},
    {"group", "SecP521r1MLKEM1024", use_group},
};

static enum outcome run(const struct use *use) { return use->run(use->name); }

/* ----- Conditions ----- */

static enum outcome with_nothing_taken(const struct use *use) { return run(use); }

/* Root may always make threads. */
static enum outcome without_threads(const struct use *use) {
    struct rlimit none = {0, 0}, before;
    if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return WRONG;
    if (getrlimit(RLIMIT_NPROC, &before) != 0) return WRONG;
    none.rlim_max = before.rlim_max;
    if (setrlimit(RLIMIT_NPROC, &none) != 0) return WRONG;
    pthread_t thread;
    if (pthread_create(&thread, NULL, (void *(*)(void *))pause, NULL) == 0) return WRONG;
    enum outcome outcome = run(use);
    setrlimit(RLIMIT_NPROC, &before);
    return outcome;
}

static ucontext_t caller, callee;
static const struct use *used;
static enum outcome outcome_there;

static void run_there(void) { outcome_there = run(used); }

/* A fibre of a host, with a page in front that may not be touched. */
static enum outcome on_a_stack_of(const struct use *use, size_t len) {
    char *map = mmap(NULL, len + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || mprotect(map, 4096, PROT_NONE) != 0) return WRONG;
    getcontext(&callee);
    callee.uc_stack.ss_sp = map + 4096;
    callee.uc_stack.ss_size = len;
    callee.uc_link = &caller;
    used = use;
    makecontext(&callee, run_there, 0);
    swapcontext(&caller, &callee);
    munmap(map, len + 4096);
    return outcome_there;
}

static enum outcome on_a_stack_of_32_kib(const struct use *use) { return on_a_stack_of(use, 32 << 10); }
static enum outcome on_a_stack_of_64_kib(const struct use *use) { return on_a_stack_of(use, 64 << 10); }

static int run_job(void *argument) {
    outcome_there = run(*(const struct use **)argument);
    return 1;
}

static enum outcome in_an_asynchronous_job(const struct use *use) {
    ASYNC_JOB *job = NULL;
    ASYNC_WAIT_CTX *context = ASYNC_WAIT_CTX_new();
    int got, returned = 0;
    outcome_there = WRONG;
    while ((got = ASYNC_start_job(&job, context, &returned, run_job, &use, sizeof use)) == ASYNC_PAUSE) {}
    ASYNC_WAIT_CTX_free(context);
    return got == ASYNC_FINISH ? outcome_there : WRONG;
}

/* As much address space as there is now, and so many bytes more. */
static enum outcome with_space_for(const struct use *use, size_t more) {
    struct rlimit tight, before;
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lu", &pages) != 1 || getrlimit(RLIMIT_AS, &before) != 0) return WRONG;
    fclose(file);
    tight.rlim_cur = pages * 4096 + more;
    tight.rlim_max = before.rlim_max;
    if (setrlimit(RLIMIT_AS, &tight) != 0) return WRONG;
    enum outcome outcome = run(use);
    setrlimit(RLIMIT_AS, &before);
    return outcome;
}

static enum outcome without_space(const struct use *use) { return with_space_for(use, 0); }
static enum outcome with_little_space(const struct use *use) { return with_space_for(use, 256 << 10); }
static enum outcome with_some_space(const struct use *use) { return with_space_for(use, 1 << 20); }

static pthread_key_t at_the_end;

static void run_at_the_end(void *use) { outcome_there = run(use); }

static void *run_at_the_end_of_a_thread(void *use) {
    use_kem("ML-KEM-512"); /* Whatever the thread has of its own is there, and goes first. */
    pthread_setspecific(at_the_end, use);
    return NULL;
}

static enum outcome on_a_thread(const struct use *use, void *(*body)(void *)) {
    pthread_t thread;
    void *ended = NULL;
    if (pthread_create(&thread, NULL, body, (void *)use) != 0 || pthread_join(thread, &ended) != 0) return WRONG;
    return outcome_there;
}

static enum outcome with_thread_locals_gone(const struct use *use) {
    if (pthread_key_create(&at_the_end, run_at_the_end) != 0) return WRONG;
    return on_a_thread(use, run_at_the_end_of_a_thread);
}

static void *run_cancelled(void *use) {
    outcome_there = ERROR; /* Where it ends before it has an answer. */
    pthread_cancel(pthread_self());
    enum outcome outcome = run(use);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    outcome_there = outcome;
    return NULL;
}

static enum outcome under_pthread_cancel(const struct use *use) { return on_a_thread(use, run_cancelled); }

static atomic_int stop;

static void *run_until_stopped(void *use) {
    do run(use);
    while (!stop);
    return NULL;
}

/* How often a child is forked that hangs. */
#define FORKS 3

/* The child of a process whose other threads were in the middle of the same. A lock of OpenSSL's own that one of them
 * held, of its generators or its tables of methods, stays locked in the child, with any provider or none: seldom, and not
 * three times one after the other. A lock of ours would. */
static enum outcome after_fork(const struct use *use) {
    pthread_t threads[2];
    /* The crate of P-521 makes its table behind a lock: docs/guide/engine.md has such a curve used before a fork. */
    if (strstr(use->name, "521") && run(use) != RIGHT) return WRONG;
    for (int attempt = 0; attempt < FORKS; attempt++) {
        alarm(3 * SECONDS);
        stop = 0;
        for (int i = 0; i < 2; i++)
            if (pthread_create(&threads[i], NULL, run_until_stopped, (void *)use) != 0) return WRONG;
        usleep(3000);
        pid_t child = fork();
        if (child == 0) {
            /* No child has its parent's alarm. One that hung for ever would hold the pipes that the driver reads. */
            alarm(SECONDS);
            _exit(run(use));
        }
        stop = 1;
        int status = -1;
        for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
        if (child < 0 || waitpid(child, &status, 0) != child) return WRONG;
        alarm(SECONDS);
        if (WIFEXITED(status)) return (enum outcome)WEXITSTATUS(status);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM) return WRONG;
    }
    return WRONG;
}

/* What plug.so calls where the loader runs it: once when it comes, once when it goes. */
static int wanted_call, calls;
void matrix_call(void) {
    if (calls++ == wanted_call) outcome_there = run(used);
}

static enum outcome in_a_library(const struct use *use, int call) {
    char path[512];
    snprintf(path, sizeof path, "%s/plug.so", folder);
    used = use;
    wanted_call = call;
    outcome_there = WRONG;
    void *library = dlopen(path, RTLD_NOW);
    if (!library || dlclose(library) != 0) return WRONG;
    return outcome_there;
}

static enum outcome in_a_constructor(const struct use *use) { return in_a_library(use, 0); }
static enum outcome in_a_destructor(const struct use *use) { return in_a_library(use, 1); }

static const struct condition {
    const char *name;
    enum outcome (*run)(const struct use *use);
    int may_fail; /* It takes away what the operation needs. */
} CONDITIONS[] = {
    {"nothing taken", with_nothing_taken, 0},
    {"no thread", without_threads, 0},
    {"32 KiB of stack", on_a_stack_of_32_kib, 0},
    {"64 KiB of stack", on_a_stack_of_64_kib, 0},
    {"an asynchronous job", in_an_asynchronous_job, 0},
    {"no address space", without_space, 1},
    {"256 KiB of address space", with_little_space, 1},
    {"1 MiB of address space", with_some_space, 1},
    {"thread-locals gone", with_thread_locals_gone, 1},
    {"pthread_cancel", under_pthread_cancel, 1},
    {"after fork", after_fork, 0},
    {"a constructor", in_a_constructor, 0},
    {"a destructor", in_a_destructor, 0},
    {"1 MiB of address space, no error", with_some_space, 0}, /* Only by name: self-tests need 2. */
};

/* ----- Cells ----- */

/* In a child: 0 if the cell is right, else what was wrong. */
static int cell(const struct condition *condition, const struct use *use) {
    alarm(SECONDS);
    enum outcome under = condition->run(use);
    if (under == WRONG) return 10;
    if (under == ERROR && !condition->may_fail) {
        ERR_print_errors_fp(stderr);
        return 11;
    }
    ERR_clear_error();
    if (run(use) == RIGHT) return 0;
    ERR_print_errors_fp(stderr);
    return 12;
}

static struct running {
    pid_t pid;
    const struct condition *condition;
    const struct use *use;
} running[ATTEMPTS_AT_ONCE];

static int right, wrong;

static void reap(void) {
    int status;
    pid_t pid = wait(&status);
    for (int i = 0; i < ATTEMPTS_AT_ONCE; i++) {
        if (running[i].pid != pid || pid <= 0) continue;
        running[i].pid = 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            right++;
            return;
        }
        wrong++;
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
        const char *why = code == 10   ? "a wrong answer"
                          : code == 11 ? "an error where it should do"
                          : code == 12 ? "an error after the condition was over"
                          : WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "it hangs"
                                                                               : "the process ended";
        printf("wrong: %s, %s %s: %s (status %#x)\n", running[i].condition->name, running[i].use->what,
               running[i].use->name, why, (unsigned)status);
        fflush(stdout);
    }
}

static void start(const struct condition *condition, const struct use *use) {
    for (;;) {
        for (int i = 0; i < ATTEMPTS_AT_ONCE; i++) {
            if (running[i].pid != 0) continue;
            pid_t pid = fork();
            if (pid < 0) exit(2);
            if (pid == 0) _exit(cell(condition, use));
            running[i] = (struct running){pid, condition, use};
            return;
        }
        reap();
    }
}

/* Has libcrypto look up what it needs; of the algorithms nothing runs. A look-up that finds no memory is one
 * that libcrypto does not make again, and a fork in the middle of one may leave a lock of its own held. */
static void look_up(const struct use *use) {
    EVP_PKEY *key = NULL;
    if (use->run == use_group) {
        SSL_CTX_free(context_of(use->name, 0));
        SSL_CTX_free(context_of(use->name, 1));
        return;
    }
    EVP_KEYMGMT_free(EVP_KEYMGMT_fetch(NULL, use->name, NULL));
    if (use->run == use_kem) {
        EVP_KEM_free(EVP_KEM_fetch(NULL, use->name, NULL));
        return;
    }
    EVP_SIGNATURE_free(EVP_SIGNATURE_fetch(NULL, use->name, NULL));
    OSSL_DECODER_CTX_free(OSSL_DECODER_CTX_new_for_pkey(&key, "DER", "SubjectPublicKeyInfo", use->name, 0, NULL, NULL));
    OSSL_DECODER_CTX_free(OSSL_DECODER_CTX_new_for_pkey(&key, "DER", "PrivateKeyInfo", use->name, 0, NULL, NULL));
    OSSL_DECODER_CTX_free(OSSL_DECODER_CTX_new_for_pkey(&key, "PEM", NULL, use->name, 0, NULL, NULL));
    ERR_clear_error();
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    folder = arguments[1];
    const size_t uses = sizeof USES / sizeof *USES, conditions = sizeof CONDITIONS / sizeof *CONDITIONS;
    const char *condition = count > 3 ? arguments[3] : NULL, *name = count > 4 ? arguments[4] : NULL;
    /* Loads the providers; of ours nothing is used. */
    EVP_MD_free(EVP_MD_fetch(NULL, "SHA2-256", NULL));
    for (size_t i = 0; i < uses; i++) {
        if (USES[i].run == use_certificate) BIO_free(contents(USES[i].name, "pem"));
        if (USES[i].run == use_signature && !strstr(USES[i].name, "FN-DSA")) BIO_free(contents(USES[i].name, "key"));
    }
    BIO_free(contents("ec", "key"));
    BIO_free(contents("ec", "pem"));
    for (size_t i = 0; i < uses; i++) look_up(&USES[i]);
    for (size_t i = 0; strcmp(arguments[2], "later") == 0 && i < uses; i++)
        if (run(&USES[i]) != RIGHT) {
            fprintf(stderr, "%s %s does not work at all\n", USES[i].what, USES[i].name);
            ERR_print_errors_fp(stderr);
            return 2;
        }
    for (size_t i = 0; i < conditions; i++)
        for (size_t j = 0; j < uses; j++) {
            if (condition ? strcmp(condition, CONDITIONS[i].name) != 0 : i == conditions - 1) continue;
            if (name && strcmp(name, USES[j].name) != 0) continue;
            start(&CONDITIONS[i], &USES[j]);
        }
    while (running[0].pid || running[1].pid || running[2].pid || running[3].pid) reap();
    printf("%s use: %d right, %d wrong\n", arguments[2], right, wrong);
    return wrong != 0;
}
