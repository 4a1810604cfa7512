package fipstls

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// hostName turns what a server is called into what its certificate has to be for: a name in ASCII, as
// net/http makes one of `bücher.example`, without the root's dot; or an address without brackets and zone.
// Anything that certificates can't have is an error: libssl would take ".example.test" for every name below.
func hostName(name string) (host string, isIP bool, err error) {
	host = name
	if strings.HasPrefix(host, "[") {
		inner, closed := strings.CutSuffix(host[1:], "]")
		if !closed || !strings.Contains(inner, ":") || parseAddress(inner) == nil {
			return "", false, fmt.Errorf("%q has brackets and is no IPv6 address", name)
		}
		host = inner
	}
	if address := parseAddress(host); address != nil {
		return address.String(), true, nil // ::ffff:192.0.2.1 is 192.0.2.1
	}
	if host = strings.TrimSuffix(host, "."); host == "" && name == "" {
		return "", false, nil
	}
	if parseAddress(host) != nil {
		return "", false, fmt.Errorf("%q is an address with a dot behind it", name)
	}
	if !isASCII(host) {
		if !utf8.ValidString(host) {
			return "", false, fmt.Errorf("%q is no text", name)
		}
		if host, err = idna.Lookup.ToASCII(host); err != nil {
			return "", false, err
		}
	}
	if !isHostName(host) {
		return "", false, fmt.Errorf("%q is neither a host's name nor an address", name)
	}
	return host, false, nil
}

// parseAddress parses an address that may have a zone.
func parseAddress(text string) net.IP {
	if address, _, ok := strings.Cut(text, "%"); ok && strings.Contains(address, ":") {
		text = address
	}
	return net.ParseIP(text)
}

func isASCII(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r >= 0x80 }) < 0
}

// isHostName allows what crypto/x509 does: letters, digits and hyphens, and the underscore that some have.
func isHostName(host string) bool {
	if len(host) > 253 {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			isLetter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
			if !isLetter && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

var (
	errNUL   = errors.New("a NUL byte is in it, where a text of C ends")
	errEmpty = errors.New("it is given and empty; nil is the default")
)

// checkTexts refuses what would mean something else on the other side of the border: a text with a NUL, an
// empty name in a list, and a list of what to trust or to be that is there and empty. It goes over all
// fields, so that one that is added is checked, too.
func (c *Config) checkTexts() error {
	value := reflect.ValueOf(c).Elem()
	for i := range value.NumField() {
		field, name := value.Field(i), value.Type().Field(i).Name
		if !value.Type().Field(i).IsExported() || name == "NextProtos" { // which are bytes with a length
			continue
		}
		switch content := field.Interface().(type) {
		case string:
			if strings.Contains(content, "\x00") {
				return &ConfigError{name, errNUL}
			}
		case []string:
			for _, text := range content {
				if strings.TrimSpace(text) == "" {
					return &ConfigError{name, errors.New("an empty name is in the list")}
				}
				if strings.Contains(text, "\x00") {
					return &ConfigError{name, errNUL}
				}
			}
		default:
			if field.Kind() == reflect.Slice && !field.IsNil() && field.Len() == 0 {
				return &ConfigError{name, errEmpty}
			}
		}
	}
	if c.CipherList != "" && strings.Trim(c.CipherList, " :,;") == "" {
		return &ConfigError{"CipherList", errors.New("no name is in it")}
	}
	for _, root := range c.RootCAs {
		if root == nil || len(root.Raw) == 0 {
			return &ConfigError{"RootCAs", errors.New("a certificate is nil, or was not parsed")}
		}
	}
	if _, _, err := hostName(c.ServerName); err != nil {
		return &ConfigError{"ServerName", err}
	}
	return nil
}
