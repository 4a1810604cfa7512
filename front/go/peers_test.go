package fipstls

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// opensslVariable is a prefix whose bin/openssl is the peer; the one in PATH without it.
const opensslVariable = "FIPSTLS_TEST_OPENSSL"

// openssl returns a command of the peer's, or skips.
func openssl(t *testing.T, arguments ...string) *exec.Cmd {
	t.Helper()
	prefix := os.Getenv(opensslVariable)
	if prefix == "" {
		file, err := exec.LookPath("openssl")
		if err != nil {
			t.Skip("no openssl in PATH to be the peer")
		}
		return exec.Command(file, arguments...)
	}
	command := exec.Command(filepath.Join(prefix, "bin", "openssl"), arguments...)
	command.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(prefix, "lib"))
	return command
}

// hasAlgorithm asks the peer for a signature algorithm.
func hasAlgorithm(t *testing.T, name string) bool {
	out, _ := openssl(t, "list", "-signature-algorithms").CombinedOutput()
	return bytes.Contains(bytes.ToLower(out), []byte(strings.ToLower(name)))
}

// freePort returns a port that nobody listens at.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return portOf(listener.Addr())
}

// start runs a server until the test ends, and waits until it takes connections.
func start(t *testing.T, command *exec.Cmd, port string) {
	t.Helper()
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	// s_server ends when its input does.
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		command.Process.Kill()
		command.Wait()
		if t.Failed() {
			t.Logf("%v: %s", command.Args, output.Bytes())
		}
	})
	for range 200 {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			conn.Close()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("%v does not listen: %s", command.Args, output.Bytes())
}

func TestAgainstSServer(t *testing.T) {
	w := newWorld(t)
	certFile, keyFile := writeFile(t, "cert.pem", w.server.certPEM), writeFile(t, "key.pem", w.server.keyPEM)
	for _, version := range []string{"-tls1_2", "-tls1_3"} {
		t.Run(version, func(t *testing.T) {
			port := freePort(t)
			start(t, openssl(t, "s_server", "-accept", port, "-cert", certFile, "-key", keyFile, "-www", version), port)
			for i := range 2 {
				conn, err := Dial("tcp", "localhost:"+port, w.clientConfigShared(t))
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprint(conn, "GET / HTTP/1.0\r\n\r\n")
				page, err := io.ReadAll(conn)
				if err != nil || !bytes.Contains(page, []byte("Cipher")) {
					t.Errorf("%q, %v", page, err)
				}
				if resumed := conn.Negotiated().Resumed; resumed != (i == 1) {
					t.Errorf("connection %d: resumed %v", i, resumed)
				}
				conn.Close()
			}
			w.shared = nil
		})
	}
}

// Certificates and key exchange that only newer versions have, on both sides.
func TestPostQuantumAgainstSServer(t *testing.T) {
	library, err := Loaded()
	if err != nil {
		t.Fatal(err)
	}
	if library.Number < 0x30500000 {
		t.Skipf("%s has no ML-KEM and ML-DSA", library.Version)
	}
	if !hasAlgorithm(t, "ML-DSA-65") {
		t.Skip("the peer has no ML-DSA; FIPSTLS_TEST_OPENSSL names the prefix of one that has")
	}
	folder := t.TempDir()
	certFile, keyFile := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	make := openssl(t, "req", "-x509", "-newkey", "mldsa65", "-nodes", "-keyout", keyFile, "-out", certFile,
		"-subj", "/CN=post-quantum", "-addext", "subjectAltName=DNS:localhost", "-days", "2")
	if out, err := make.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	port := freePort(t)
	start(t, openssl(t, "s_server", "-accept", port, "-cert", certFile, "-key", keyFile, "-www"), port)
	config := closing(t, &Config{CaFile: certFile, Groups: []string{"X25519MLKEM768"}})
	conn, err := Dial("tcp", "localhost:"+port, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got := conn.Negotiated()
	if got.Group != "X25519MLKEM768" || !strings.EqualFold(strings.ReplaceAll(got.Signature, "-", ""), "mldsa65") {
		t.Errorf("%+v", got)
	}
	if state := conn.ConnectionState(); len(state.PeerCertificates) != 1 {
		t.Errorf("%d certificates", len(state.PeerCertificates))
	}
}

func TestAgainstSClient(t *testing.T) {
	w := newWorld(t)
	caFile := writeFile(t, "ca.pem", w.ca.pem)
	for _, version := range []string{"-tls1_2", "-tls1_3"} {
		listener, err := Listen("tcp", "127.0.0.1:0", w.serverConfig(t))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			line, _ := bufio.NewReader(conn).ReadString('\n')
			io.WriteString(conn, "echo: "+line)
		}()
		command := openssl(t, "s_client", "-connect", listener.Addr().String(), "-CAfile", caFile,
			"-verify_return_error", "-verify_hostname", "localhost", "-servername", "localhost", "-quiet", version)
		command.Stdin = strings.NewReader("hello\n")
		out, err := command.CombinedOutput()
		if !bytes.Contains(out, []byte("echo: hello")) {
			t.Errorf("%s: %v\n%s", version, err, out)
		}
		listener.Close()
	}
}

func TestAgainstCurl(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("no curl to be the peer")
	}
	h := ownHTTPServer(t, nil)
	caFile := writeFile(t, "ca.pem", h.ca.pem)
	for _, version := range []string{"--http1.1", "--http2"} {
		out, err := exec.Command(curl, "-sS", "--noproxy", "*", "--cacert", caFile, version, h.url+"/tls").CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("true")) {
			t.Errorf("%s: %v %s", version, err, out)
		}
	}
}

// The example prints what was negotiated, and with -fips refuses where the library has no FIPS provider.
func TestExampleAgainstSServer(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go in PATH to build the example with")
	}
	library, err := Loaded()
	if err != nil {
		t.Fatal(err)
	}
	example := filepath.Join(t.TempDir(), "https-get")
	build := exec.Command(goTool, "build", "-o", example, "./examples/https-get")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	w, port := newWorld(t), freePort(t)
	start(t, openssl(t, "s_server", "-accept", port, "-www",
		"-cert", writeFile(t, "cert.pem", w.server.certPEM), "-key", writeFile(t, "key.pem", w.server.keyPEM)), port)
	unavailable := FIPSAvailable("")
	for _, fips := range []bool{false, true} {
		command := exec.Command(example, fmt.Sprintf("-fips=%v", fips), "-lib", library.LibSsl,
			"-ca", writeFile(t, "ca.pem", w.ca.pem), "https://localhost:"+port+"/")
		out, err := command.CombinedOutput()
		said := string(out)
		if fips && unavailable != nil {
			if err == nil || !strings.Contains(said, "FIPS is required and not available") || strings.Contains(said, "response") {
				t.Errorf("here FIPS is refused (%v), there: %v\n%s", unavailable, err, said)
			}
			continue
		}
		wanted := []string{"version    TLS 1.", "group      ", "signature  ecdsa", "response   HTTP/1.0 200", "FIPS       no"}
		if fips {
			wanted[4] = "FIPS       yes"
		}
		for _, text := range wanted {
			if err != nil || !strings.Contains(said, text) {
				t.Errorf("-fips=%v: %v, expected %q in\n%s", fips, err, text, said)
				break
			}
		}
	}
}
