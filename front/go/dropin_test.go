package fipstls_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gabion/fipstls"
)

// The ways in which programs of github.com/aristanetworks/go-openssl-fips make clients compile, and fail
// with an error and not before where no server answers.
func TestDropIn(t *testing.T) {
	config := &fipstls.Config{MinTLSVersion: fipstls.Version13}
	for name, client := range map[string]*http.Client{
		"NewClient": fipstls.NewClient(config, fipstls.WithTimeout(time.Second), fipstls.WithNetwork("tcp4"), fipstls.WithLogging(fipstls.LogLevelError, os.Stderr)),
		"Transport": {Transport: &fipstls.Transport{
			Dialer:       fipstls.NewDialer(config),
			ModifyHeader: func(header *http.Header) { header.Add("User-Agent", "foo") },
		}},
		"zero Transport": {Transport: &fipstls.Transport{}},
		"TLS":            {Transport: &fipstls.Transport{Dialer: &fipstls.Dialer{TLS: config}, DisableCompression: true}},
	} {
		if _, err := client.Get("https://localhost:1"); err == nil {
			t.Errorf("%s: port 1 answers", name)
		}
	}
	if _, err := fipstls.NewGrpcDialFn(&fipstls.Config{CaFile: "/nonexistent/cert.pem"}); err == nil {
		t.Error("a file that is missing")
	}
	if fipstls.NewDialContext(config) == nil || fipstls.Version() == "" || fipstls.ProviderInfo() == "" {
		t.Error("names are missing")
	}
}

// theirNames are what aristanetworks/go-openssl-fips/fipstls exports at its head of March 2025, with the
// names that only its README has.
const theirNames = `
Init FIPSMode SetFIPS Version ProviderInfo ErrNoLibSslInit ErrLoadLibSslFailed ErrShutdown
NewClient NewDialer NewDialContext NewGrpcDialFn NewCtx NewBIO NewConn DefaultNetwork
Config Config.LibsslVersion Config.CaFile Config.CaPath Config.CertFile Config.KeyFile Config.ServerName
Config.InsecureSkipVerify Config.MinTLSVersion Config.MaxTLSVersion Config.Method Config.VerifyMode
Config.SessionTicketsDisabled Config.SessionCacheDisabled Config.CompressionDisabled Config.RenegotiationDisabled
Config.NextProtos
Version1 Version11 Version12 Version13
Method DefaultMethod ClientMethod ServerMethod
VerifyMode VerifyNone VerifyPeer VerifyFailIfNoPeerCert VerifyClientOnce VerifyPostHandshake
Dialer Dialer.TLS Dialer.Timeout Dialer.Deadline Dialer.Network Dialer.Logger Dialer.DialContext
DialOption WithTimeout WithDeadline WithNetwork WithLogger WithLogging WithLogPrefix
Transport Transport.Dialer Transport.DisableCompression Transport.SetHeader Transport.ModifyHeader Transport.RoundTrip
Context Context.Ctx Context.Close Closer
BIO BIO.BIO BIO.Hostname BIO.LocalAddr BIO.RemoteAddr BIO.FD BIO.CloseFD BIO.Close SOCK_BLOCK SOCK_NONBLOCK
Conn Conn.Handshake Conn.Read Conn.Write Conn.Close Conn.LocalAddr Conn.RemoteAddr Conn.SetDeadline
Conn.SetReadDeadline Conn.SetWriteDeadline
Logger Logger.Logf Logger.Wrap DefaultLogger LogLevelErr LogLevelInfo LogLevelDebug`

// Every name is exported here, or docs/guide/go.md has the line to write in its place; and the table has no
// other names.
func TestEveryTheirNameIsAnswered(t *testing.T) {
	ours, same, others := exported(t), map[string]bool{}, map[string]bool{}
	page, err := os.ReadFile("../../docs/guide/go.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n| there | here |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	name := regexp.MustCompile(`[A-Z]\w+(\.[A-Z]\w+)?`)
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) != 4 || strings.TrimSpace(cells[2]) == "" {
			t.Fatalf("no row of two cells: %s", row)
		}
		to := others
		if strings.TrimSpace(cells[2]) == "the same names" {
			to = same
		}
		for _, found := range name.FindAllString(cells[1], -1) {
			to[found] = true
		}
	}
	theirs := map[string]bool{}
	for _, name := range strings.Fields(theirNames) {
		theirs[name] = true
		_, field, _ := strings.Cut(name, ".")
		owner := strings.TrimSuffix(name, "."+field)
		// A field stands in the table by its own name, a method by its type's where that is replaced.
		if isReplaced := others[name] || others[owner] || field != "" && others[field]; !ours[name] && !isReplaced {
			t.Errorf("%s is not exported, and docs/guide/go.md has nothing to write in its place", name)
		}
	}
	for name := range same {
		if !theirs[name] || !ours[name] {
			t.Errorf("docs/guide/go.md calls %s the same: theirs %v, ours %v", name, theirs[name], ours[name])
		}
	}
	for name := range others {
		if !theirs[name] && !theirs["Config."+name] {
			t.Errorf("docs/guide/go.md replaces %s, which is not theirs", name)
		}
	}
}

// exported are this package's names, fields and methods as Type.Name.
func exported(t *testing.T) map[string]bool {
	names := map[string]bool{}
	files, _ := filepath.Glob("*.go")
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			switch declaration := declaration.(type) {
			case *ast.FuncDecl:
				of := ""
				if declaration.Recv != nil {
					of = nameOf(declaration.Recv.List[0].Type) + "."
				}
				names[of+declaration.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range declaration.Specs {
					addSpec(names, spec)
				}
			}
		}
	}
	return names
}

func addSpec(names map[string]bool, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			names[name.Name] = true
		}
	case *ast.TypeSpec:
		names[spec.Name.Name] = true
		var fields *ast.FieldList
		switch kind := spec.Type.(type) {
		case *ast.StructType:
			fields = kind.Fields
		case *ast.InterfaceType:
			fields = kind.Methods
		default:
			return
		}
		for _, field := range fields.List {
			for _, name := range field.Names {
				names[spec.Name.Name+"."+name.Name] = true
			}
		}
	}
}

// nameOf is the name of a receiver's type.
func nameOf(kind ast.Expr) string {
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	if name, ok := kind.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}
