//go:build fipstls_purego && (linux || darwin)

package fipstls

import (
	_ "embed"
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"
)

// The border to libssl without cgo, experimental: the same as the C files here do, by calls from Go
// through purego. docs/go.md says what it lacks. Which functions exist, and which of them may be missing, is
// read from the table that the C files are compiled from.
//
// Pointers to Go's memory are converted in the argument list of call and nowhere else, where the
// compiler keeps what they point at in place (go:uintptrescapes); libssl keeps none of them.

//go:embed libssl_table.h
var functionTable string

// tableRow is a function in that table: NEED(result, name, (arguments)) or MAY(...).
var tableRow = regexp.MustCompile(`\b(NEED|MAY)\(([^,()]*), (\w+),`)

// symbol is a function of libssl or libcrypto; 0 is one that this version lacks.
type symbol uintptr

// call calls the function. Integers come back in the low bits: see cInt.
//
//go:uintptrescapes
func (s symbol) call(args ...uintptr) uintptr {
	result, _, _ := purego.SyscallN(uintptr(s), args...)
	return result
}

// cInt is a result of type int, of which the upper half of the register says nothing.
func cInt(result uintptr) int { return int(int32(result)) }

func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// cBytes are n bytes of C's memory, for as long as C keeps them.
func cBytes(address uintptr, n int) []byte {
	if address == 0 || n <= 0 {
		return nil
	}
	return unsafe.Slice((*byte)(pointer(address)), n)
}

// cText is C text without its end, as bytes that are C's.
func cText(address uintptr) []byte {
	n := 0
	for address != 0 && *(*byte)(unsafe.Add(pointer(address), n)) != 0 {
		n++
	}
	return cBytes(address, n)
}

func goString(address uintptr) string { return string(cText(address)) }

// inC is a Go string as C text. Its first byte is there even where the string is empty.
func inC(text string) []byte { return append([]byte(text), 0) }

// onOneThread keeps the goroutine on its thread until the function that it returns is called:
// libssl's error queue belongs to the thread. It is empty at first.
func onOneThread() func() {
	runtime.LockOSThread()
	ossl.ERR_clear_error.call()
	return runtime.UnlockOSThread
}

// functions are what is used of libssl_table.h, by its names, and at the end what only memory BIOs need.
type functions struct {
	OpenSSL_version_num, OpenSSL_version, ERR_get_error, ERR_clear_error        symbol
	ERR_reason_error_string, ERR_lib_error_string, CRYPTO_free                  symbol
	BIO_new, BIO_new_mem_buf, BIO_free                                          symbol
	d2i_X509, i2d_X509, X509_free, X509_check_host, X509_check_ip_asc           symbol
	d2i_X509_CRL, X509_CRL_free, X509_STORE_add_cert, X509_STORE_add_crl        symbol
	X509_STORE_set_flags, X509_VERIFY_PARAM_set1_ip_asc                         symbol
	X509_VERIFY_PARAM_set_hostflags, X509_verify_cert_error_string              symbol
	X509_get_default_cert_file, X509_get_default_cert_dir                       symbol
	PEM_read_bio_PrivateKey, d2i_AutoPrivateKey, EVP_PKEY_free                  symbol
	OPENSSL_sk_num, OPENSSL_sk_value, OBJ_nid2sn                                symbol
	OPENSSL_init_ssl, TLS_method, SSL_CTX_new, SSL_CTX_free, SSL_CTX_ctrl       symbol
	SSL_CTX_set_options, SSL_CTX_set_verify, SSL_CTX_get_cert_store             symbol
	SSL_CTX_set_default_verify_paths, SSL_CTX_load_verify_locations             symbol
	SSL_CTX_set_cipher_list, SSL_CTX_set_ciphersuites, SSL_CTX_use_certificate  symbol
	SSL_CTX_use_PrivateKey, SSL_CTX_check_private_key, SSL_CTX_add_client_CA    symbol
	SSL_CTX_set_num_tickets, SSL_CTX_sess_set_new_cb                            symbol
	SSL_CTX_set_session_id_context, SSL_CTX_set_alpn_select_cb                  symbol
	SSL_CTX_set_keylog_callback                                                 symbol
	SSL_new, SSL_free, SSL_set_bio, SSL_set_connect_state, SSL_set_accept_state symbol
	SSL_do_handshake, SSL_read_ex, SSL_write_ex, SSL_shutdown, SSL_get_error    symbol
	SSL_pending, SSL_ctrl, SSL_set1_host, SSL_get0_param, SSL_set_alpn_protos   symbol
	SSL_get0_alpn_selected, SSL_get_verify_result, SSL_version                  symbol
	SSL_get_current_cipher, SSL_CIPHER_get_name, SSL_CIPHER_get_protocol_id     symbol
	SSL_session_reused, SSL_get_peer_cert_chain, SSL_get0_verified_chain        symbol
	SSL_set_session, SSL_get1_session, SSL_SESSION_free, SSL_get_servername     symbol
	SSL_get_peer_signature_type_nid, SSL_export_keying_material, SSL_key_update symbol
	SSL_renegotiate, SSL_renegotiate_pending, SSL_in_init                       symbol
	SSL_get1_peer_certificate, SSL_get_peer_certificate, SSL_CTX_new_ex         symbol
	SSL_group_to_name, SSL_get0_group_name, SSL_get0_peer_signature_name        symbol
	EVP_PKEY_get_id, EVP_PKEY_id, EVP_PKEY_bits                                 symbol
	PEM_read_bio_PrivateKey_ex, d2i_AutoPrivateKey_ex, X509_new_ex              symbol
	X509_CRL_new_ex, OSSL_LIB_CTX_new, OSSL_LIB_CTX_free, OSSL_PROVIDER_load    symbol
	OSSL_PROVIDER_available, OSSL_PROVIDER_get0_name, OSSL_PROVIDER_get_params  symbol
	OSSL_PROVIDER_do_all, EVP_set_default_properties, EVP_MD_fetch, EVP_MD_free symbol
	EVP_MD_get0_provider, NCONF_new_ex, NCONF_free, NCONF_load_bio              symbol
	CONF_modules_load                                                           symbol
	OSSL_STORE_open_ex, OSSL_STORE_load, OSSL_STORE_eof, OSSL_STORE_error       symbol
	OSSL_STORE_close, OSSL_STORE_INFO_get_type, OSSL_STORE_INFO_get1_PKEY       symbol
	OSSL_STORE_INFO_get1_CERT, OSSL_STORE_INFO_free                             symbol
	UI_UTIL_wrap_read_pem_callback, UI_destroy_method, FIPS_mode                symbol
	SSL_poll, SSL_CTX_flush_sessions_ex, SSL_set_quic_tls_cbs                   symbol
	SSL_set1_ech_config_list                                                    symbol

	BIO_s_mem, BIO_read, BIO_write, BIO_ctrl symbol
}

// ossl is filled by loadLibrary; until then nothing else is called.
var (
	ossl                functions
	sslFile, cryptoFile string
)

// find fills f, and names the first missing function that every supported version has.
func (f *functions) find(handle uintptr) (missing string) {
	may := map[string]bool{}
	for _, row := range tableRow.FindAllStringSubmatch(functionTable, -1) {
		may[row[3]] = row[1] == "MAY"
	}
	fields := reflect.ValueOf(f).Elem()
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		address, err := purego.Dlsym(handle, name)
		if err != nil {
			address = 0
		}
		*(*symbol)(fields.Field(i).Addr().UnsafePointer()) = symbol(address)
		if address == 0 && !may[name] && missing == "" {
			missing = name
		}
	}
	if missing == "" && f.SSL_get1_peer_certificate == 0 && f.SSL_get_peer_certificate == 0 {
		missing = "SSL_get1_peer_certificate"
	}
	return missing
}

// mismatch tells a libssl of another version than its libcrypto by what it has, as libssl_load.c does.
func (f *functions) mismatch(version uint64) string {
	minor := version >> 20 // 0x30500050 -> 0x305
	switch {
	case version < 0x30000000 && f.SSL_CTX_new_ex != 0:
		return "3.0 or newer"
	case version < 0x30000000:
		return ""
	case f.SSL_CTX_new_ex == 0:
		return "1.1.1"
	case minor < 0x400 && f.SSL_set1_ech_config_list != 0:
		return "4.0 or newer"
	case minor < 0x305 && f.SSL_set_quic_tls_cbs != 0:
		return "3.5 or newer"
	case minor < 0x304 && f.SSL_CTX_flush_sessions_ex != 0:
		return "3.4 or newer"
	case minor < 0x303 && f.SSL_poll != 0:
		return "3.3 or newer"
	case minor < 0x302 && f.SSL_get0_group_name != 0:
		return "3.2 or newer"
	case minor >= 0x304 && f.SSL_CTX_flush_sessions_ex == 0:
		return "older than 3.4"
	case minor >= 0x302 && f.SSL_get0_group_name == 0:
		return "older than 3.2"
	}
	return ""
}

// fileOf is the file that a function came from, by dladdr.
func fileOf(function symbol) string {
	address, err := purego.Dlsym(purego.RTLD_DEFAULT, "dladdr")
	if err != nil {
		return ""
	}
	var found struct{ file, base, name, at uintptr } // Dl_info
	if cInt(symbol(address).call(uintptr(function), uintptr(unsafe.Pointer(&found)))) == 0 {
		return ""
	}
	return goString(found.file)
}

func loadLibrary(ssl, crypto, wanted string) (err error) {
	var handles []uintptr
	defer func() {
		if err != nil {
			ossl = functions{}
			for _, handle := range handles {
				purego.Dlclose(handle)
			}
		}
	}()
	for _, file := range []string{crypto, ssl} { // libcrypto first, so that libssl takes this one
		if file == "" {
			continue
		}
		handle, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			return err
		}
		handles = append([]uintptr{handle}, handles...)
	}
	var found functions
	if missing := found.find(handles[0]); missing != "" {
		return fmt.Errorf("%s has no function %s; OpenSSL 1.1.1, 3.x or 4.x is needed", ssl, missing)
	}
	version := uint64(found.OpenSSL_version_num.call())
	full := goString(found.OpenSSL_version.call(0))
	if version < 0x10101000 || (version >= 0x20000000 && version < 0x30000000) || version >= 0x50000000 {
		return fmt.Errorf("%s goes with libcrypto %s; OpenSSL 1.1.1, 3.x or 4.x is needed", ssl, full)
	}
	sslFile, cryptoFile = fileOf(found.SSL_new), fileOf(found.OpenSSL_version_num)
	if other := found.mismatch(version); other != "" {
		return fmt.Errorf("%s is of version %s, but its libcrypto, %s, is %s", sslFile, other, cryptoFile, full)
	}
	if wanted != "" && !versionIs(full, wanted) {
		return fmt.Errorf("%s is %s, not %s", sslFile, full, wanted)
	}
	ossl = found
	defer onOneThread()()
	// No handler at exit: other threads may still be inside libssl then. OPENSSL_INIT_NO_ATEXIT.
	if cInt(ossl.OPENSSL_init_ssl.call(0x00080000, 0)) != 1 {
		_, why := drainErrors()
		return fmt.Errorf("%s does not initialise: %s", ssl, why)
	}
	return nil // the handles stay open as long as the process
}

// has tells whether every one of these functions is there.
func has(needed ...symbol) bool {
	for _, function := range needed {
		if function == 0 {
			return false
		}
	}
	return true
}

func hasLibraryContext() bool {
	return has(ossl.SSL_CTX_new_ex, ossl.OSSL_LIB_CTX_new, ossl.OSSL_LIB_CTX_free, ossl.OSSL_PROVIDER_load,
		ossl.OSSL_PROVIDER_available, ossl.OSSL_PROVIDER_get0_name, ossl.OSSL_PROVIDER_get_params,
		ossl.OSSL_PROVIDER_do_all, ossl.EVP_set_default_properties, ossl.EVP_MD_fetch, ossl.EVP_MD_free,
		ossl.EVP_MD_get0_provider, ossl.NCONF_new_ex, ossl.NCONF_free, ossl.NCONF_load_bio,
		ossl.CONF_modules_load, ossl.X509_new_ex, ossl.X509_CRL_new_ex, ossl.PEM_read_bio_PrivateKey_ex,
		ossl.d2i_AutoPrivateKey_ex)
}

func hasStore() bool {
	return has(ossl.OSSL_STORE_open_ex, ossl.OSSL_STORE_load, ossl.OSSL_STORE_eof, ossl.OSSL_STORE_error,
		ossl.OSSL_STORE_close, ossl.OSSL_STORE_INFO_get_type, ossl.OSSL_STORE_INFO_get1_PKEY,
		ossl.OSSL_STORE_INFO_get1_CERT, ossl.OSSL_STORE_INFO_free, ossl.UI_UTIL_wrap_read_pem_callback,
		ossl.UI_destroy_method)
}

// loadedLibrary may be called only when a library is loaded.
func loadedLibrary() Library {
	return Library{
		Version:    goString(ossl.OpenSSL_version.call(0)),
		Number:     uint64(ossl.OpenSSL_version_num.call()),
		LibSsl:     sslFile,
		LibCrypto:  cryptoFile,
		Directory:  directoryIn(goString(ossl.OpenSSL_version.call(4))), // OPENSSL_DIR
		Providers:  providersOf(nil),
		Groups:     ossl.SSL_get0_group_name != 0 || ossl.SSL_group_to_name != 0,
		Signatures: ossl.SSL_get0_peer_signature_name != 0,
		Store:      hasStore(),
		OwnContext: hasLibraryContext(),
	}
}

// providers collects names while libcrypto calls back.
var providers struct {
	sync.Mutex
	names []string
	call  uintptr
}

func providersOf(library unsafe.Pointer) []string {
	if !hasLibraryContext() {
		return nil
	}
	defer onOneThread()()
	// Providers are loaded by the first fetch: ask for something that every one has.
	digest := inC("SHA2-256")
	ossl.EVP_MD_free.call(ossl.EVP_MD_fetch.call(uintptr(library), uintptr(unsafe.Pointer(&digest[0])), 0))
	ossl.ERR_clear_error.call()
	providers.Lock()
	defer providers.Unlock()
	if providers.call == 0 {
		providers.call = purego.NewCallback(func(provider, _ uintptr) uintptr {
			providers.names = append(providers.names, goString(ossl.OSSL_PROVIDER_get0_name.call(provider)))
			return 1
		})
	}
	providers.names = nil
	ossl.OSSL_PROVIDER_do_all.call(uintptr(library), providers.call, 0)
	return providers.names
}

func defaultCertFile() string { return goString(ossl.X509_get_default_cert_file.call()) }

func defaultCertDir() string { return goString(ossl.X509_get_default_cert_dir.call()) }

func verifyText(code int) string {
	return goString(ossl.X509_verify_cert_error_string.call(uintptr(code)))
}

// drainErrors empties the error queue into words, oldest entry first, and returns that entry's code.
func drainErrors() (first uint64, text string) {
	var reasons []string
	for {
		code := ossl.ERR_get_error.call()
		if code == 0 {
			return first, strings.Join(reasons, "; ")
		}
		if first == 0 {
			first = uint64(code)
		}
		library := goString(ossl.ERR_lib_error_string.call(code))
		reason := goString(ossl.ERR_reason_error_string.call(code))
		// Several entries often give the same reason; say it once.
		if reason != "" && strings.Contains(strings.Join(reasons, "; "), reason) {
			continue
		}
		switch {
		case reason != "" && library != "":
			reason = library + ": " + reason
		case reason == "":
			reason = fmt.Sprintf("error %#x", code)
		}
		reasons = append(reasons, reason)
	}
}

// live counts what exists; see counters.
var live struct{ conns, contexts, sessions atomic.Int64 }

// counters reports how many connections, contexts and sessions exist in C.
func counters() (conns, contexts, sessions int64) {
	return live.conns.Load(), live.contexts.Load(), live.sessions.Load()
}

// --- FIPS ------------------------------------------------------------------------------------------

// fipsLibrary makes a library context in which only approved algorithms are found. An empty config
// loads the provider without one.
func fipsLibrary(config string) (unsafe.Pointer, error) {
	if !hasLibraryContext() {
		return nil, fmt.Errorf("%s has no library contexts", goString(ossl.OpenSSL_version.call(0)))
	}
	defer onOneThread()()
	library := ossl.OSSL_LIB_CTX_new.call()
	if library == 0 {
		return nil, fmt.Errorf("no memory for a library context")
	}
	err := setFIPS(library, config)
	if err == nil {
		err = fipsProven(pointer(library))
	}
	if err != nil {
		ossl.OSSL_LIB_CTX_free.call(library)
		return nil, err
	}
	return pointer(library), nil
}

func setFIPS(library uintptr, config string) error {
	fips, base, properties := inC("fips"), inC("base"), inC("fips=yes")
	ok := config != "" && loadConfiguration(library, config) ||
		config == "" && ossl.OSSL_PROVIDER_load.call(library, uintptr(unsafe.Pointer(&fips[0]))) != 0 &&
			ossl.OSSL_PROVIDER_load.call(library, uintptr(unsafe.Pointer(&base[0]))) != 0
	if ok && cInt(ossl.EVP_set_default_properties.call(library, uintptr(unsafe.Pointer(&properties[0])))) == 1 {
		return nil
	}
	_, why := drainErrors()
	if why == "" {
		why = "the provider fips did not load"
	}
	return fmt.Errorf("%s", why)
}

func loadConfiguration(library uintptr, config string) bool {
	parsed := ossl.NCONF_new_ex.call(library, 0)
	bio, done := readingBIO([]byte(config))
	defer done()
	ok := parsed != 0 && bio != 0 && cInt(ossl.NCONF_load_bio.call(parsed, bio, 0)) > 0 &&
		cInt(ossl.CONF_modules_load.call(parsed, 0, 0)) > 0
	if parsed != 0 {
		ossl.NCONF_free.call(parsed)
	}
	return ok
}

// readingBIO lets libssl read data until done is called.
func readingBIO(data []byte) (bio uintptr, done func()) {
	if len(data) == 0 {
		return 0, func() {}
	}
	var pin runtime.Pinner
	pin.Pin(unsafe.SliceData(data))
	bio = ossl.BIO_new_mem_buf.call(uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)))
	return bio, func() {
		if bio != 0 {
			ossl.BIO_free.call(bio)
		}
		pin.Unpin()
	}
}

// isRunning is explained in libssl_load.c.
func isRunning(provider uintptr) bool {
	type param struct { // OSSL_PARAM(3)
		key            unsafe.Pointer
		kind           uint32 // 1 is a signed integer
		data           unsafe.Pointer
		size, returned uintptr
	}
	key, status := inC("status"), new(int32)
	asked := &[2]param{{unsafe.Pointer(&key[0]), 1, unsafe.Pointer(status), unsafe.Sizeof(*status), 0}}
	return cInt(ossl.OSSL_PROVIDER_get_params.call(provider, uintptr(unsafe.Pointer(asked)))) == 1 && *status == 1
}

// fipsProven asks a library context, nil being the process's own, whether it is in FIPS mode: an
// approved algorithm has to come from the provider fips, and MD5 must not be found.
func fipsProven(library unsafe.Pointer) error {
	if !hasLibraryContext() {
		if library == nil && ossl.FIPS_mode != 0 && cInt(ossl.FIPS_mode.call()) == 1 {
			return nil
		}
		return fmt.Errorf("%s is not in FIPS mode", goString(ossl.OpenSSL_version.call(0)))
	}
	defer onOneThread()()
	own := uintptr(library)
	fips, digest, properties, unapproved := inC("fips"), inC("SHA2-256"), inC("fips=yes"), inC("MD5")
	if cInt(ossl.OSSL_PROVIDER_available.call(own, uintptr(unsafe.Pointer(&fips[0])))) == 0 {
		return fmt.Errorf("the provider fips is not loaded")
	}
	approved := ossl.EVP_MD_fetch.call(own, uintptr(unsafe.Pointer(&digest[0])), uintptr(unsafe.Pointer(&properties[0])))
	defer ossl.EVP_MD_free.call(approved)
	name := "no provider"
	var provider uintptr
	if approved != 0 {
		provider = ossl.EVP_MD_get0_provider.call(approved)
		name = goString(ossl.OSSL_PROVIDER_get0_name.call(provider))
	}
	md5 := ossl.EVP_MD_fetch.call(own, uintptr(unsafe.Pointer(&unapproved[0])), 0)
	defer ossl.EVP_MD_free.call(md5)
	defer ossl.ERR_clear_error.call()
	switch {
	case name != "fips":
		return fmt.Errorf("SHA2-256 with fips=yes comes from %s, not from the provider fips", name)
	case !isRunning(provider):
		return fmt.Errorf("the provider fips is in its error state: a self-test failed")
	case md5 != 0:
		return fmt.Errorf("MD5 is found: fips=yes is not the default property")
	}
	return nil
}
