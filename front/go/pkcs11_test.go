package fipstls

import (
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// firstFile returns the first file that is there, or "".
func firstFile(patterns ...string) string {
	for _, pattern := range patterns {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

const (
	tokenLabel = "fipstls"
	tokenPIN   = "4321"
	tokenKeys  = "FIPSTLS_TEST_TOKEN" // folder of the certificates, in the process that has the token
)

// A private key in a token, by Debian's SoftHSM and pkcs11-provider: libssl signs with it and never sees
// it. The provider is activated by OPENSSL_CONF, hence in a process of its own.
func TestPKCS11(t *testing.T) {
	if folder := os.Getenv(tokenKeys); folder != "" {
		withToken(t, folder)
		return
	}
	library, err := Loaded()
	if err != nil {
		t.Fatal(err)
	}
	if !library.Store || library.Number>>28 != 3 {
		t.Skipf("pkcs11-provider is for OpenSSL 3; this is %s", library.Version)
	}
	provider := firstFile(os.Getenv("FIPSTLS_TEST_PKCS11"), "/usr/lib/*/ossl-modules/pkcs11.so", "/usr/lib*/ossl-modules/pkcs11.so")
	token := firstFile("/usr/lib/*/softhsm/libsofthsm2.so", "/usr/lib*/softhsm/libsofthsm2.so", "/usr/lib*/pkcs11/libsofthsm2.so")
	util, _ := exec.LookPath("softhsm2-util")
	if provider == "" || token == "" || util == "" {
		t.Skip("no token: the packages softhsm2 and pkcs11-provider (Debian 13, Ubuntu 24.04) have what this needs; " +
			"FIPSTLS_TEST_PKCS11 names a pkcs11.so elsewhere")
	}
	folder, w := t.TempDir(), newWorld(t)
	put := func(name, text string) string {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	os.Mkdir(filepath.Join(folder, "tokens"), 0o700)
	env := append(os.Environ(), tokenKeys+"="+folder,
		"SOFTHSM2_CONF="+put("softhsm2.conf", "directories.tokendir = "+filepath.Join(folder, "tokens")+"\nobjectstore.backend = file\n"),
	)
	run := func(name string, args ...string) {
		t.Helper()
		command := exec.Command(name, args...)
		command.Env = env
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", filepath.Base(name), args, err, out)
		}
	}
	run(util, "--init-token", "--free", "--label", tokenLabel, "--so-pin", "87654321", "--pin", tokenPIN)
	for i, identity := range []identity{w.client, w.server} {
		name := []string{"client", "server"}[i]
		put(name+".pem", string(identity.certPEM))
		run(util, "--import", put(name+"-key.pem", string(identity.keyPEM)), "--token", tokenLabel, "--pin", tokenPIN,
			"--label", name, "--id", fmt.Sprintf("0%d", i+1))
		os.Remove(filepath.Join(folder, name+"-key.pem"))
	}
	put("ca.pem", string(w.ca.pem))
	env = append(env, "OPENSSL_CONF="+put("openssl.cnf", fmt.Sprintf(`config_diagnostics = 1
openssl_conf = init
[init]
providers = providers
[providers]
default = plain
pkcs11 = token
[plain]
activate = 1
[token]
module = %s
pkcs11-module-path = %s
activate = 1
`, provider, token)))
	run(os.Args[0], "-test.run=^TestPKCS11$", "-test.count=1")
}

// withToken makes connections whose two ends have their keys in the token.
func withToken(t *testing.T, folder string) {
	leavesNothing(t)
	ca, err := os.ReadFile(filepath.Join(folder, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	identityOf := func(name string) *Config {
		return closing(t, &Config{
			CertFile: filepath.Join(folder, name+".pem"), KeyFile: "pkcs11:token=" + tokenLabel + ";object=" + name + ";type=private",
			KeyPassphrase: tokenPIN, CaPEM: ca,
		})
	}
	// The first of all: later the process is logged in, and nobody asks for the PIN.
	wrong := identityOf("client")
	wrong.KeyPassphrase = "0000"
	if err := wrong.Check(); err == nil {
		t.Error("a wrong PIN opens the token")
	}
	for _, version := range []uint16{Version12, Version13} {
		config, serverConfig := identityOf("client"), identityOf("server")
		config.ServerName, config.MaxTLSVersion = "localhost", version
		serverConfig.ClientAuth = RequireAndVerifyClientCert
		client, server := connected(t, config, serverConfig)
		exchange(t, client, server)
		if got := server.ConnectionState().PeerCertificates; len(got) == 0 {
			t.Errorf("%s: the client has no certificate", tls.VersionName(version))
		}
	}
	missing := identityOf("client")
	missing.KeyFile = "pkcs11:token=" + tokenLabel + ";object=nobody;type=private"
	if err := missing.Check(); err == nil {
		t.Error("a key that is not there is found")
	}
	other := identityOf("client")
	other.KeyFile = identityOf("server").KeyFile
	if err := other.Check(); err == nil {
		t.Error("the server's key goes with the client's certificate")
	}
}
