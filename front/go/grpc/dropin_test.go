package fipsgrpc

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"gabion/fipstls"
)

// Programs that were written for another package are built with its import path changed and nothing else,
// and run: two of ours, and the two of its README, where that is at hand (readmeVariable, or a folder beside
// the checkout) and with its slips mended.

const (
	readmeVariable = "FIPSTLS_TEST_README"
	readmeBeside   = "../../../../shared/seeds/5-go-openssl-fips.md"
	theirImport    = `"github.com/aristanetworks/go-openssl-fips/fipstls"`
)

// mend replaces what is there, and fails where it is not: a slip that was mended upstream is none.
func mend(t *testing.T, program string, pairs ...string) string {
	t.Helper()
	for pair := range slices.Chunk(pairs, 2) {
		if !strings.Contains(program, pair[0]) {
			t.Fatalf("the program does not say %q", pair[0])
		}
		program = strings.ReplaceAll(program, pair[0], pair[1])
	}
	return program
}

// readme is the number-th program of their README.
func readme(t *testing.T, number int) string {
	t.Helper()
	file := os.Getenv(readmeVariable)
	if file == "" {
		file = readmeBeside
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Skip("their README is not here: " + err.Error())
	}
	programs := regexp.MustCompile("(?s)``` ?go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(programs) != 2 {
		t.Fatalf("%s has %d programs", file, len(programs))
	}
	return programs[number][1]
}

// runProgram builds a program in this module, without a file of it in the tree, and runs it.
func runProgram(t *testing.T, program string, variables ...string) {
	t.Helper()
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	here, err := filepath.Abs("testdata/dropin/program/main.go")
	if err != nil {
		t.Fatal(err)
	}
	overlay, _ := json.Marshal(map[string]any{"Replace": map[string]string{here: path("main.go")}})
	for name, content := range map[string][]byte{
		"main.go": []byte(mend(t, program, theirImport, `"gabion/fipstls"`)), "overlay.json": overlay,
	} {
		if err := os.WriteFile(path(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-overlay", path("overlay.json"), "-o", path("program"), "./testdata/dropin/program")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.Command(path("program"))
	run.Env = append(os.Environ(), variables...)
	if lib := os.Getenv("FIPSTLS_TEST_LIB"); lib != "" { // Init("") takes what the linker finds.
		run.Env = append(run.Env, "LD_LIBRARY_PATH="+filepath.Dir(lib))
	}
	if out, err := run.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// certificate is one for localhost, in a file too.
func certificate(t *testing.T) (certPEM, keyPEM []byte, file string) {
	t.Helper()
	certPEM, keyPEM = mint(t, "localhost")
	file = filepath.Join(t.TempDir(), "cert.pem")
	if err := os.WriteFile(file, certPEM, 0o600); err != nil {
		t.Fatal(err)
	}
	return certPEM, keyPEM, file
}

func TestTheirHTTPProgram(t *testing.T) {
	for name, program := range map[string]func(*testing.T) (string, []string){
		"README": func(t *testing.T) (string, []string) {
			// It has no package clause, an import that is not used and none of one that is, lacks a comma, and
			// declares what it has declared.
			source := mend(t, "package main\n"+readme(t, 0), `"fmt"`, `"log"`, "\t\t}\n\t}\n", "\t\t},\n\t}\n")
			const declares = "resp, err :="
			before, after, _ := strings.Cut(source, declares)
			return before + declares + mend(t, after, declares, "resp, err ="), []string{"", "foo", ""}
		},
		"ours": func(t *testing.T) (string, []string) { return ownProgram(t, "http"), []string{"", "foo", "", ""} },
	} {
		t.Run(name, func(t *testing.T) {
			source, wanted := program(t)
			certPEM, keyPEM, file := certificate(t)
			pair, err := tls.X509KeyPair(certPEM, keyPEM)
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			var agents []string
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				agent := r.UserAgent()
				if strings.HasPrefix(agent, "Go-http-client/") {
					agent = ""
				}
				agents = append(agents, agent)
				w.Write([]byte("hello"))
			}))
			server.TLS, server.EnableHTTP2 = &tls.Config{Certificates: []tls.Certificate{pair}}, true
			server.StartTLS()
			defer server.Close()
			url := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
			runProgram(t, mend(t, source, "https://example.com", url, "/path/to/cert.pem", file), "SSL_CERT_FILE="+file)
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(agents, wanted) {
				t.Errorf("requests of %q", agents)
			}
		})
	}
}

func TestTheirGRPCProgram(t *testing.T) {
	for name, program := range map[string]func(*testing.T) string{
		"README": func(t *testing.T) string {
			return mend(t, readme(t, 1), `Config{"/path/to/cert.pem"}`, `Config{CaFile: "/path/to/cert.pem"}`) // keyed
		},
		"ours": func(t *testing.T) string {
			return mend(t, ownProgram(t, "grpc"), "import (\n", "import (\n\t\"context\"\n\t\"fmt\"\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			source := program(t)
			certPEM, keyPEM, file := certificate(t)
			creds, err := NewServerCredentials(&fipstls.Config{Cert: certPEM, Key: keyPEM})
			if err != nil {
				t.Fatal(err)
			}
			address := serve(t, creds)
			// What the program leaves to its reader uses the imports that it has and does not use.
			runProgram(t, mend(t, source, "your-grpc-server-address:port", "passthrough:///"+address, "/path/to/cert.pem", file,
				"// ... use the gRPC connection ...", use,
				"\"google.golang.org/grpc\"\n", "\"google.golang.org/grpc\"\n\ttestgrpc \"google.golang.org/grpc/interop/grpc_testing\"\n"))
		})
	}
}

const use = `	answer, err := testgrpc.NewTestServiceClient(conn).EmptyCall(context.Background(), &testgrpc.Empty{})
	if err != nil {
		log.Fatalf("call: %v", err)
	}
	fmt.Println(answer)
`

// ownProgram is one of the folder testdata/dropin.
func ownProgram(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/dropin", name, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(text)) + "\n"
}
