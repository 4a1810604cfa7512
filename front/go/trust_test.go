package fipstls

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// An authority that is trusted for some uses only, as in the bundle of some distributions, is so in every
// way that it can be given.
func TestTrustedCertificatesKeepTheirSettings(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	plain := writeFile(t, "ca.pem", w.ca.pem)
	for setting, accepted := range map[string]bool{
		"-addreject serverAuth": false, "-addtrust emailProtection": false,
		"-addtrust serverAuth": true, "-addreject emailProtection": true,
	} {
		arguments := append([]string{"x509", "-in", plain, "-trustout"}, strings.Fields(setting)...)
		trusted, err := openssl(t, arguments...).Output()
		if err != nil || !strings.Contains(string(trusted), "BEGIN TRUSTED CERTIFICATE") {
			t.Fatalf("%s: %v %s", setting, err, trusted)
		}
		for form, config := range map[string]*Config{
			"CaPEM": {CaPEM: trusted}, "CaFile": {CaFile: writeFile(t, "trusted.pem", trusted)},
		} {
			_, err := handshakeOf(t, closing(t, config), "localhost", goServer(t, w))
			if (err == nil) != accepted {
				t.Errorf("%s by %s: %v", setting, form, err)
			}
		}
		block, _ := pem.Decode(trusted)
		var field *ConfigError
		if err := closing(t, &Config{CaPEM: block.Bytes}).Check(); !errors.As(err, &field) || field.Field != "CaPEM" {
			t.Errorf("as DER, where nothing says that settings follow: %v", err)
		}
		server := closing(t, &Config{Cert: w.server.certPEM, Key: w.server.keyPEM, CaPEM: trusted, ClientAuth: RequireAndVerifyClientCert})
		if err := server.CheckServer(); err != nil {
			t.Errorf("server: %v", err)
		}
	}
}

// A process with more rights than its caller takes no configuration from the caller's environment. The
// scenario runs in a copy of this binary that belongs to another user and is setuid.
func TestPrivilegedProcessIgnoresTheEnvironment(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a setuid program")
	}
	folder, err := os.MkdirTemp("/tmp", "fipstls-setuid-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	binary, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(folder, "program")
	err = errors.Join(os.WriteFile(program, binary, 0o755), os.Chmod(folder, 0o755),
		os.Chown(program, 65534, 65534), os.Chmod(program, 0o755|os.ModeSetuid))
	if err != nil {
		t.Fatal(err)
	}
	var system syscall.Statfs_t
	if syscall.Statfs(folder, &system); system.Flags&2 != 0 { // ST_NOSUID
		t.Skip("/tmp is mounted nosuid")
	}
	for file, wanted := range map[string]string{os.Args[0]: "taken", program: "ignored"} {
		command := exec.Command(file)
		command.Dir = folder
		command.Env = append(os.Environ(), scenarioVariable+"=environment", "OPENSSL_CONF=/nonexistent/openssl.cnf")
		out, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "OPENSSL_CONF is "+wanted) {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}

func environmentScenario() error {
	verdict := "ignored"
	if environment("OPENSSL_CONF") != "" {
		verdict = "taken"
	}
	fmt.Println("OPENSSL_CONF is", verdict)
	return nil
}

// Trust that is given and empty is a mistake somewhere else, and not the system's trust.
func TestEmptyListsAreNoDefaults(t *testing.T) {
	leavesNothing(t)
	for field, config := range map[string]*Config{
		"RootCAs": {RootCAs: []*x509.Certificate{}}, "CaPEM": {CaPEM: []byte{}}, "CRLs": {CRLs: [][]byte{}},
		"Cert": {Cert: []byte{}}, "Key": {Key: []byte{}},
		"Groups": {Groups: []string{""}}, "CipherSuites": {CipherSuites: []string{"TLS_AES_128_GCM_SHA256", ""}},
		"SignatureAlgorithms": {SignatureAlgorithms: []string{""}}, "CipherList": {CipherList: " "},
	} {
		var wrong *ConfigError
		if err := config.Check(); !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := closing(t, &Config{RootCAs: []*x509.Certificate{nil}}).Check(); err == nil {
		t.Error("a certificate that is nil")
	}
}

// An intermediate authority, or the certificate itself, may be all that is trusted, as with crypto/x509.
func TestAnyCertificateCanBeTheAnchor(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	key := newKey(t)
	middle := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, SubjectKeyId: []byte("middle")}
	middle.Subject.CommonName = "middle"
	under := &authority{cert: sign(t, middle, w.ca.cert, key, w.ca.key), key: key}
	leaf, other := under.issue(t, nil, "localhost"), under.issue(t, nil, "localhost")
	for name, test := range map[string]struct {
		trusted  []*x509.Certificate
		accepted bool
	}{
		"intermediate": {[]*x509.Certificate{under.cert}, true}, "itself": {[]*x509.Certificate{leaf.cert}, true},
		"a sibling": {[]*x509.Certificate{other.cert}, false}, "root without the intermediate": {[]*x509.Certificate{w.ca.cert}, false},
	} {
		_, err := handshakeOf(t, closing(t, &Config{RootCAs: test.trusted}), "localhost", &tls.Config{Certificates: []tls.Certificate{leaf.tlsCertificate(t)}})
		if (err == nil) != test.accepted {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := handshakeOf(t, w.clientConfig(t), "::ffff:127.0.0.1", goServer(t, w)); err != nil {
		t.Errorf("an IPv4 address in IPv6's words: %v", err)
	}
}
