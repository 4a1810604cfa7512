package fipstls

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A process loads one libssl, so what Init does at first is asked of a process of its own: this test
// binary, which runs a scenario instead of tests when the variable names one.
const scenarioVariable = "FIPSTLS_TEST_SCENARIO"

var scenarios = map[string]func() error{
	"missing": func() error {
		err := Init("/nonexistent/libssl.so.3")
		if !errors.Is(err, ErrLoadLibSslFailed) {
			return fmt.Errorf("got %v", err)
		}
		// Nothing else is loaded instead of what was asked for.
		if err := new(Config).Check(); !errors.Is(err, ErrLoadLibSslFailed) {
			return fmt.Errorf("after a failure: %v", err)
		}
		// A later call can still succeed.
		return Init(os.Getenv(libVariable))
	},
	"nonsense": func() error {
		for _, lib := range []string{"banana", "2", "0.9.8", "5"} {
			if err := Init(lib); !errors.Is(err, ErrLoadLibSslFailed) {
				return fmt.Errorf("%q: got %v", lib, err)
			}
		}
		return nil
	},
	"not a libssl": func() error {
		file := filepath.Join(os.TempDir(), "fipstls-not-a-library.so")
		if err := os.WriteFile(file, []byte("nothing"), 0o600); err != nil {
			return err
		}
		defer os.Remove(file)
		if err := Init(file); !errors.Is(err, ErrLoadLibSslFailed) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	},
	// A library that loads and has none of the functions.
	"another library": func() error {
		for _, lib := range []string{"/lib/x86_64-linux-gnu/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6"} {
			if _, err := os.Stat(lib); err != nil {
				continue
			}
			err := Init(lib)
			if !errors.Is(err, ErrLoadLibSslFailed) || !strings.Contains(err.Error(), "no function") {
				return fmt.Errorf("got %v", err)
			}
		}
		return Init(os.Getenv(libVariable))
	},
	"other version": func() error {
		if err := Init("3.99"); !errors.Is(err, ErrLoadLibSslFailed) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	},
	"twice": func() error {
		if err := Init(os.Getenv(libVariable)); err != nil {
			return err
		}
		if err := Init(""); err != nil {
			return fmt.Errorf("the search finds what is loaded: %v", err)
		}
		if err := Init("/nonexistent/libssl.so.3"); err == nil {
			return errors.New("a second library was accepted")
		}
		return nil
	},
	// The module's integrity is checked when it is loaded, once in a process.
	"wrong integrity": func() error {
		if err := Init(os.Getenv(libVariable)); err != nil {
			return err
		}
		file, err := os.CreateTemp("", "fipstls-*.cnf")
		if err != nil {
			return err
		}
		defer os.Remove(file.Name())
		io.WriteString(file, "config_diagnostics = 1\nopenssl_conf = i\n[i]\nproviders = p\n[p]\nfips = f\nbase = d\n"+
			"[f]\nactivate = 1\nmodule-mac = 00:11\n[d]\nactivate = 1\n")
		file.Close()
		if err := FIPSAvailable(file.Name()); !errors.Is(err, ErrFIPSUnavailable) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	},
	"environment": environmentScenario,
	// Nobody called Init: the first use does.
	"by itself": func() error {
		_, err := Loaded()
		return err
	},
}

func runScenario(name string) int {
	if err := scenarios[name](); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func TestInitScenarios(t *testing.T) {
	for name := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := exec.Command(os.Args[0])
			command.Env = append(os.Environ(), scenarioVariable+"="+name)
			if out, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

func TestLoadedSaysWhatItIs(t *testing.T) {
	library, err := Loaded()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(library.Version, "OpenSSL ") || library.Number < 0x10101000 {
		t.Errorf("version %q, %#x", library.Version, library.Number)
	}
	for _, file := range []string{library.LibSsl, library.LibCrypto, library.Directory} {
		if !filepath.IsAbs(file) {
			t.Errorf("%q is no absolute path", file)
		}
	}
	// libssl and libcrypto of one version lie side by side.
	if filepath.Dir(library.LibSsl) != filepath.Dir(library.LibCrypto) {
		t.Errorf("%s goes with %s", library.LibSsl, library.LibCrypto)
	}
	if library.OwnContext && len(library.Providers) == 0 {
		t.Error("no provider is named")
	}
	if got := loadedIs("3"); got != (library.Number>>28 == 3) {
		t.Errorf("loadedIs(3) is %v for %s", got, library.Version)
	}
}
