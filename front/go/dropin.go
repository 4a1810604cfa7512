package fipstls

import (
	"errors"
	"fmt"
	"io"
	"log"
	"time"
)

// Names for programs that were written for github.com/aristanetworks/go-openssl-fips/fipstls, and want to
// change the import path only. docs/guide/go.md has a table of all that it exports.

// Version1 is TLS 1.0.
const Version1 = Version10

// DialOption sets something of a [Dialer].
type DialOption func(*Dialer)

// WithTimeout bounds the whole of dialling.
func WithTimeout(timeout time.Duration) DialOption { return func(d *Dialer) { d.Timeout = timeout } }

// WithDeadline bounds the whole of dialling.
func WithDeadline(deadline time.Time) DialOption { return func(d *Dialer) { d.Deadline = deadline } }

// WithNetwork sets what is dialled in place of "tcp": "tcp4", "tcp6" or "unix".
func WithNetwork(network string) DialOption { return func(d *Dialer) { d.Network = network } }

// WithLogger tells a logger of each dial.
func WithLogger(logger Logger) DialOption { return func(d *Dialer) { d.Logger = logger } }

// WithLogging writes a line for each dial of a level up to this one.
func WithLogging(level int, w io.Writer) DialOption {
	return func(d *Dialer) { d.Logger = writerLogger{log.New(w, "", log.LstdFlags), level} }
}

// NewDialer returns a [Dialer] with a configuration, nil being the default, and options.
func NewDialer(config *Config, options ...DialOption) *Dialer {
	d := &Dialer{Config: config}
	for _, option := range options {
		option(d)
	}
	return d
}

// Levels of a [Logger].
const (
	LogLevelError = iota
	LogLevelInfo
	LogLevelDebug

	LogLevelErr = LogLevelError
)

// Logger is told what a [Dialer] does.
type Logger interface {
	Log(level int, format string, values ...any)
}

type writerLogger struct {
	log   *log.Logger
	level int
}

func (w writerLogger) Log(level int, format string, values ...any) {
	if level <= w.level {
		w.log.Printf([]string{"error: ", "info: ", "debug: "}[min(max(level, 0), 2)]+format, values...)
	}
}

// ErrNoLibSslInit says that Version and the like were asked before a libssl was loaded.
var ErrNoLibSslInit = errors.New("fipstls: no libssl is loaded; call Init first")

// Version is what the loaded libssl calls itself, or an error's text.
func Version() string {
	library, err := Loaded()
	if err != nil {
		return err.Error()
	}
	return library.Version
}

// ProviderInfo names the providers of the process's own library context, or says why there are none.
func ProviderInfo() string {
	library, err := Loaded()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(library.Providers)
}

// FIPSMode tells whether the process's own library context finds approved algorithms only. A Config with
// FIPSRequired has a context of its own, whatever this says; see [FIPSAvailable].
func FIPSMode() bool { return ensureLoaded() == nil && fipsProven(nil) == nil }
