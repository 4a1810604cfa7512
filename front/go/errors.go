package fipstls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

var (
	// ErrLoadLibSslFailed says that no usable libssl was found. Errors of [Init], and of everything
	// that needs libssl, wrap it; a program can test for it to stop, or to use crypto/tls knowingly.
	ErrLoadLibSslFailed = errors.New("fipstls: libssl failed to load")

	// ErrFIPSUnavailable says that FIPS was required and is not proven: nothing was built.
	ErrFIPSUnavailable = errors.New("fipstls: FIPS is required and not available")

	// ErrUnsupported says that the loaded libssl lacks what a configuration asks for.
	ErrUnsupported = errors.New("fipstls: not supported by the loaded libssl")
)

// AlertError is a TLS alert that the peer sent. Find it in an error with [errors.As].
type AlertError = tls.AlertError

// ConfigError says which field of a [Config] is wrong, and why.
type ConfigError struct {
	Field string // the name of the field
	Err   error
}

func (e *ConfigError) Error() string { return "fipstls: Config." + e.Field + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.Err }

// Error is a failure that libssl reported.
type Error struct {
	Op     string // "handshake", "read", "write"
	Code   uint64 // the oldest entry of OpenSSL's error queue
	Reason string // the queue in words

	alert int // the alert that was received, or -1
}

func (e *Error) Error() string { return "fipstls: " + e.Op + ": " + e.Reason }

// Unwrap returns the peer's alert as an [AlertError], or nil.
func (e *Error) Unwrap() error {
	if e.alert < 0 {
		return nil
	}
	return AlertError(e.alert)
}

// CertificateVerificationError says that the peer's certificate was not accepted. It wraps a
// [tls.CertificateVerificationError], whose cause is [x509.HostnameError],
// [x509.UnknownAuthorityError] or [x509.CertificateInvalidError] where one of them says the same.
type CertificateVerificationError struct {
	Code   int    // X509_V_ERR_*, see X509_STORE_CTX_get_error(3)
	Reason string // OpenSSL's words for it

	wrapped tls.CertificateVerificationError
}

func (e *CertificateVerificationError) Error() string {
	return fmt.Sprintf("fipstls: certificate is not accepted: %s (%d)", e.Reason, e.Code)
}

// Unwrap returns the same as crypto/tls would report it.
func (e *CertificateVerificationError) Unwrap() error { return &e.wrapped }

// Codes of X509_STORE_CTX_get_error(3) that Go has a type for.
const (
	verifyOK                  = 0
	verifyUnspecified         = 1
	verifyIssuerUnknown       = 2
	verifyNotYetValid         = 9
	verifyExpired             = 10
	verifySelfSigned          = 18
	verifySelfSignedInChain   = 19
	verifyIssuerUnknownLocal  = 20
	verifyLeafSignatureFailed = 21
	verifyChainTooLong        = 22
	verifyInvalidCA           = 24
	verifyWrongPurpose        = 26
	verifyHostname            = 62
	verifyIPAddress           = 64
)

// newVerificationError makes the error for an X509_V_ERR_ code and the certificates that were sent.
func newVerificationError(code int, reason, host string, chain []*x509.Certificate) error {
	var leaf *x509.Certificate
	if len(chain) > 0 {
		leaf = chain[0]
	}
	var cause error
	switch code {
	case verifyHostname, verifyIPAddress:
		if leaf != nil {
			cause = x509.HostnameError{Certificate: leaf, Host: host}
		}
	case verifyIssuerUnknown, verifySelfSigned, verifySelfSignedInChain, verifyIssuerUnknownLocal,
		verifyLeafSignatureFailed:
		cause = x509.UnknownAuthorityError{Cert: leaf}
	case verifyNotYetValid, verifyExpired:
		cause = x509.CertificateInvalidError{Cert: leaf, Reason: x509.Expired, Detail: reason}
	case verifyInvalidCA:
		cause = x509.CertificateInvalidError{Cert: leaf, Reason: x509.NotAuthorizedToSign, Detail: reason}
	case verifyChainTooLong:
		cause = x509.CertificateInvalidError{Cert: leaf, Reason: x509.TooManyIntermediates, Detail: reason}
	case verifyWrongPurpose:
		cause = x509.CertificateInvalidError{Cert: leaf, Reason: x509.IncompatibleUsage, Detail: reason}
	}
	if cause == nil {
		cause = errors.New(reason)
	}
	return &CertificateVerificationError{
		Code:    code,
		Reason:  reason,
		wrapped: tls.CertificateVerificationError{UnverifiedCertificates: chain, Err: cause},
	}
}
