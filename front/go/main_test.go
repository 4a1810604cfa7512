package fipstls

import (
	"fmt"
	"os"
	"testing"
)

// libVariable names the libssl to test with, as Init takes it; the system's without it.
const libVariable = "FIPSTLS_TEST_LIB"

func TestMain(m *testing.M) {
	if scenario := os.Getenv(scenarioVariable); scenario != "" {
		os.Exit(runScenario(scenario))
	}
	if err := Init(os.Getenv(libVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	library, _ := Loaded()
	fmt.Fprintf(os.Stderr, "%s, %s, providers %v\n", library.Version, library.LibSsl, library.Providers)
	status := m.Run()
	if status == 0 {
		status = reportLeftovers()
	}
	os.Exit(status)
}
