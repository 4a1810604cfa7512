// Package report prints the lines of a client of the matrix.
package report

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
)

// failures counts the calls that did not do what they had to.
var failures int

// Row runs a call and prints a line of the matrix: the call's name, a tab, and `ok`, `refused` or `failed`. What the service says it
// does not support is refused; the reason goes to standard error.
func Row(name string, call func() error) {
	err := call()
	if err == nil {
		fmt.Printf("%s\tok\n", name)
		return
	}
	verdict := "failed"
	if strings.Contains(err.Error(), "unsupported") {
		verdict = "refused"
	} else {
		failures++
	}
	fmt.Printf("%s\t%s\n", name, verdict)
	fmt.Fprintf(os.Stderr, "%s: %s\n", name, strings.Join(strings.Fields(err.Error()), " "))
}

// B64 is text as Vault's fields have it.
func B64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// Same is an error unless both are equal.
func Same(what string, got, wanted any) error {
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		return fmt.Errorf("%s: got %v, expected %v", what, got, wanted)
	}
	return nil
}

// Begins is an error unless text begins with prefix.
func Begins(what, text, prefix string) error {
	if !strings.HasPrefix(text, prefix) {
		return fmt.Errorf("%s: %q does not begin with %q", what, text, prefix)
	}
	return nil
}

// Exit ends the program: with 1 if a call failed, or could not be made.
func Exit(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
	}
	if err != nil || failures > 0 {
		os.Exit(1)
	}
	os.Exit(0)
}
