package fipstls

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestHostNames(t *testing.T) {
	for name, wanted := range map[string]string{
		"example.test": "example.test", "example.test.": "example.test", "EXAMPLE.test": "EXAMPLE.test",
		"a_b.test": "a_b.test", "_dmarc.test": "_dmarc.test", "127.1": "127.1", "": "",
		"bücher.test": "xn--bcher-kva.test", "例え.テスト": "xn--r8jz45g.xn--zckzah",
		"127.0.0.1": "127.0.0.1", "::1": "::1", "[::1]": "::1", "fe80::1%eth0": "fe80::1", "[fe80::1%25eth0]": "fe80::1",
		"::ffff:127.0.0.1": "127.0.0.1", "0:0::1": "::1",
	} {
		if host, isIP, err := hostName(name); err != nil || host != wanted || isIP != (parseAddress(wanted) != nil) {
			t.Errorf("%q is %q, address %v, %v", name, host, isIP, err)
		}
	}
	for _, name := range []string{
		".example.test", ".", "..", "example..test", "example.test..", "[example.test", "[example.test]", "[127.0.0.1]",
		"[::1", "127.0.0.1.", "::1.", "*.example.test", "a b", "a/b", "a:b", "-a.test", "a\x00.test", "\x00", "a.test\n",
		strings.Repeat("a", 64) + ".test", strings.Repeat("a.", 127) + "a", "bü\x00cher.test", "\xff.test",
	} {
		if host, _, err := hostName(name); err == nil {
			t.Errorf("%q passes as %q", name, host)
		}
	}
}

// A NUL ends a text on the other side of the border: the rest would be neither asked for nor verified.
func TestNoTextWithANULReachesC(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	value := reflect.ValueOf(w.clientConfig(t)).Elem()
	for i := range value.NumField() {
		field := value.Type().Field(i)
		config := w.clientConfig(t)
		set := reflect.ValueOf(config).Elem().Field(i)
		switch {
		case !field.IsExported() || field.Name == "NextProtos":
			continue
		case field.Type.Kind() == reflect.String:
			set.SetString("localhost\x00.attacker.test")
		case field.Type == reflect.TypeFor[[]string]():
			set.Set(reflect.ValueOf([]string{"P-256\x00"}))
		default:
			continue
		}
		var wrong *ConfigError
		if err := config.Check(); !errors.As(err, &wrong) || wrong.Field != field.Name {
			t.Errorf("%s: %v", field.Name, err)
		}
	}
	for _, name := range []string{"localhost\x00.attacker.test", ".localhost", "127.0.0.1."} {
		a, _ := socketPair(t)
		client := w.clientConfig(t).ClientConn(a, name, nil)
		var wrong *ConfigError
		if err := client.Handshake(); !errors.As(err, &wrong) || wrong.Field != "ServerName" {
			t.Errorf("%q: %v", name, err)
		}
		client.Close()
	}
	if err := FIPSAvailable("a\x00b"); err == nil {
		t.Error("FIPSAvailable takes a NUL")
	}
	if err := Init("/lib/a\x00b"); err == nil {
		t.Error("Init takes a NUL")
	}
	// Bytes with a length of their own may hold any.
	config, serverConfig := w.clientConfig(t), w.serverConfig(t)
	config.NextProtos, serverConfig.NextProtos = []string{"a\x00b"}, []string{"a\x00b"}
	client, server := connected(t, config, serverConfig)
	if client.Negotiated().Protocol != "a\x00b" || server.Negotiated().Protocol != "a\x00b" {
		t.Errorf("%q, %q", client.Negotiated().Protocol, server.Negotiated().Protocol)
	}
	ours, err := client.ExportKeyingMaterial("label\x00more", nil, 16)
	other, _ := client.ExportKeyingMaterial("label", nil, 16)
	if err != nil || string(ours) == string(other) {
		t.Errorf("a label is cut at its NUL: %v", err)
	}
}

// What a URI's query says may be a PIN.
func TestErrorsSayNoPIN(t *testing.T) {
	for _, config := range []*Config{
		{CertFile: "pkcs11:token=x;object=y?pin-value=1234", KeyFile: "pkcs11:token=x?pin-value=1234"},
		{CertFile: "file:/nonexistent?pin-value=1234", KeyFile: "file:/nonexistent?pin-value=1234"},
	} {
		if err := config.Check(); err == nil || strings.Contains(err.Error(), "1234") {
			t.Errorf("got %v", err)
		}
	}
}
