package fipstls

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// Library describes the libssl that was loaded.
type Library struct {
	Version    string // as libcrypto says it, such as "OpenSSL 3.5.5 27 Jan 2026"
	Number     uint64 // OpenSSL_version_num: 0x30500050 for 3.5.5
	LibSsl     string // the file that libssl came from
	LibCrypto  string // the file that libcrypto came from
	Directory  string // OPENSSLDIR, where its openssl.cnf and certificates lie
	Providers  []string
	Groups     bool // the negotiated group can be named exactly
	Signatures bool // the peer's signature algorithm can be named exactly
	Store      bool // keys and certificates can be named by URI (OSSL_STORE)
	OwnContext bool // library contexts of one's own, which FIPSRequired needs (not in 1.1.1)
}

var loading struct {
	sync.Mutex
	done bool
	lib  string // what Init was asked for
	err  error  // of the last Init; nothing else is loaded in its place
}

// Init loads libssl and libcrypto. Only the first call that succeeds loads; after a failure another
// library can be tried, and until then every use of this package returns that failure. Without a call
// to Init, the first use calls Init("").
//
// lib is one of:
//   - "": libssl.so.4, libssl.so.3 and libssl.so.1.1 are tried, where the dynamic linker looks;
//   - a path, when it holds a slash. A libcrypto that lies beside that libssl is taken with it;
//   - a version such as "3", "3.5", "3.5.5" or "1.1.1", which the loaded library then has to be. One of
//     another version stays in memory though it is not used, and the dynamic linker then gives it to
//     whoever asks for the same name: try paths first, versions later.
//
// The error wraps [ErrLoadLibSslFailed] when nothing usable is there. Asking for another library than
// the one that is loaded is an error too: a process has one.
func Init(lib string) error {
	loading.Lock()
	defer loading.Unlock()
	return initLocked(lib)
}

func initLocked(lib string) error {
	if loading.done {
		if lib == loading.lib || lib == "" || loadedIs(lib) {
			return nil
		}
		return fmt.Errorf("fipstls: %s is loaded already; %q can't be loaded beside it",
			loadedLibrary().LibSsl, lib)
	}
	var failures []string
	for _, file := range candidates(lib) {
		wanted := lib
		if strings.Contains(lib, "/") {
			wanted = ""
		}
		if err := loadLibrary(file, libcryptoBeside(file), wanted); err != nil {
			failures = append(failures, err.Error())
			continue
		}
		loading.done, loading.lib = true, lib
		return nil
	}
	if len(failures) == 0 {
		failures = append(failures, fmt.Sprintf("%q is neither a path nor a version of OpenSSL", lib))
	}
	loading.err = fmt.Errorf("%w: %s", ErrLoadLibSslFailed, strings.Join(failures, "; "))
	return loading.err
}

// isPrivilegedOnce asks the kernel once: it does not change.
var isPrivilegedOnce = sync.OnceValue(isPrivileged)

// environment is a variable that names a file of whoever started the process. A process with more rights
// than they have ignores it, as OpenSSL does: a configuration of OpenSSL's can load code.
func environment(name string) string {
	if isPrivilegedOnce() {
		return ""
	}
	return os.Getenv(name)
}

// Loaded describes what [Init] loaded, providers of the process's own library context included. The
// error wraps [ErrLoadLibSslFailed].
func Loaded() (Library, error) {
	if err := ensureLoaded(); err != nil {
		return Library{}, err
	}
	return loadedLibrary(), nil
}

// ensureLoaded loads libssl by the default search where Init was not called.
func ensureLoaded() error {
	loading.Lock()
	defer loading.Unlock()
	if loading.done {
		return nil
	}
	if loading.err != nil {
		return loading.err
	}
	return initLocked("")
}

// loadedIs tells whether the loaded library is what lib asks for: its file, or its version.
func loadedIs(lib string) bool {
	library := loadedLibrary()
	if strings.Contains(lib, "/") {
		a, errA := filepath.EvalSymlinks(lib)
		b, errB := filepath.EvalSymlinks(library.LibSsl)
		return errors.Join(errA, errB) == nil && a == b
	}
	return versionIs(library.Version, lib)
}

// versionIs tells whether "OpenSSL 3.5.5 27 Jan 2026" is what a version asks for: 1.1 and 1.1.1 ask for
// 1.1.1w; 3.5 for 3.5.5, and not for 3.50.
func versionIs(full, wanted string) bool {
	_, number, _ := strings.Cut(full, " ")
	rest, ok := strings.CutPrefix(number, wanted)
	return ok && (rest == "" || rest[0] < '0' || rest[0] > '9')
}

// candidates are the names to try for lib, best first.
func candidates(lib string) []string {
	switch {
	case strings.Contains(lib, "/"):
		return []string{lib}
	case lib == "":
		return []string{soname("4"), soname("3"), soname("1.1")}
	case lib == "1.1" || strings.HasPrefix(lib, "1.1."):
		return []string{soname("1.1")}
	}
	major, _, _ := strings.Cut(lib, ".")
	if major == "3" || major == "4" {
		return []string{soname(major)}
	}
	return nil
}

func soname(version string) string {
	if runtime.GOOS == "darwin" {
		return "libssl." + version + ".dylib"
	}
	return "libssl.so." + version
}

// libcryptoBeside returns the libcrypto in the folder of a libssl that was named by its path, or "".
func libcryptoBeside(file string) string {
	if !strings.Contains(file, "/") {
		return ""
	}
	// The name by which libssl asks for it has the version, which a link such as libssl.so leaves out.
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	name := strings.Replace(filepath.Base(file), "libssl", "libcrypto", 1)
	beside := filepath.Join(filepath.Dir(file), name)
	if _, err := os.Stat(beside); err != nil {
		return ""
	}
	return beside
}
