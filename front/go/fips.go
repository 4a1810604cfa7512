package fipstls

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"
)

// fipsLibraries holds a library context for each configuration file that was asked for. They are never
// freed: the provider's self-tests run when one is made, and connections may outlive every Config.
var fipsLibraries struct {
	sync.Mutex
	made map[string]unsafe.Pointer
}

// FIPSAvailable tells whether a Config with FIPSRequired and this FIPSConfigFile would be served: nil,
// or an error that wraps [ErrFIPSUnavailable] and says what is missing.
func FIPSAvailable(configFile string) error {
	if err := ensureLoaded(); err != nil {
		return err
	}
	_, err := requireFIPS(configFile)
	return err
}

// requireFIPS returns a library context that is proven to be in FIPS mode, now: the proof is repeated
// each time. Nil without an error is the process's own, of 1.1.1.
func requireFIPS(configFile string) (unsafe.Pointer, error) {
	if !loadedLibrary().OwnContext {
		if err := fipsProven(nil); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFIPSUnavailable, err)
		}
		return nil, nil
	}
	fipsLibraries.Lock()
	defer fipsLibraries.Unlock()
	key := configFile
	if key == "" {
		key = "OPENSSL_CONF=" + environment("OPENSSL_CONF")
	}
	if library := fipsLibraries.made[key]; library != nil {
		if err := fipsProven(library); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFIPSUnavailable, err)
		}
		return library, nil
	}
	library, err := newFIPSLibrary(configFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFIPSUnavailable, err)
	}
	if fipsLibraries.made == nil {
		fipsLibraries.made = make(map[string]unsafe.Pointer)
	}
	fipsLibraries.made[key] = library
	return library, nil
}

// newFIPSLibrary tries the configurations that may activate the provider, in the order that
// Config.FIPSConfigFile documents. A file that was named is the only one that is tried.
func newFIPSLibrary(configFile string) (unsafe.Pointer, error) {
	if configFile != "" {
		return fipsLibraryFrom(configFile)
	}
	var failures []string
	files := []string{environment("OPENSSL_CONF"), filepath.Join(loadedLibrary().Directory, "fipsmodule.cnf")}
	for _, file := range files {
		if file == "" {
			continue
		}
		library, err := fipsLibraryFrom(file)
		if err == nil {
			return library, nil
		}
		failures = append(failures, err.Error())
	}
	library, err := fipsLibrary("")
	if err != nil {
		failures = append(failures, "without a configuration: "+err.Error())
		return nil, fmt.Errorf("%s", strings.Join(failures, "; "))
	}
	return library, nil
}

// moduleConfiguration activates the provider of a fipsmodule.cnf, and base, which reads keys and
// certificates and has no cryptography.
const moduleConfiguration = `config_diagnostics = 1
openssl_conf = fipstls_init
.include %s
[fipstls_init]
providers = fipstls_providers
[fipstls_providers]
fips = fips_sect
base = fipstls_base
[fipstls_base]
activate = 1
`

func fipsLibraryFrom(file string) (unsafe.Pointer, error) {
	full, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(full)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(full, "\n$") {
		return nil, fmt.Errorf("%q can't be named in an OpenSSL configuration", full)
	}
	config := fmt.Sprintf(".include %s\n", full)
	if !strings.Contains(string(text), "openssl_conf") && strings.Contains(string(text), "[fips_sect]") {
		config = fmt.Sprintf(moduleConfiguration, full)
	}
	library, err := fipsLibrary(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return library, nil
}
