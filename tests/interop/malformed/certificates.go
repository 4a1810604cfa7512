package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Messages of an authentication flight (RFC 8446, 4.4).
const (
	certificateMessage = 11
	certificateVerify  = 15
	finishedMessage    = 20
)

// beyondSignature is how far past the right length the lengths of signatures and keys go.
const beyondSignature = 48

// vector is bytes behind their length in so many bytes.
func vector(width int, content []byte) []byte {
	var length [4]byte
	binary.BigEndian.PutUint32(length[:], uint32(len(content)))
	return append(append([]byte{}, length[4-width:]...), content...)
}

func handshake(kind byte, body []byte) []byte { return append([]byte{kind}, vector(3, body)...) }

// flight of authentication: the messages as they came, and the parts of two of them.
type authentication struct {
	messages     [][]byte
	context      []byte
	certificates [][]byte
	extensions   [][]byte
	scheme       uint16
	signature    []byte
}

func uint24(bytes []byte) int { return int(bytes[0])<<16 | int(bytes[1])<<8 | int(bytes[2]) }

// cut takes the messages apart; one of our own sides has sent them, so they are well formed.
func cut(messages [][]byte) (a authentication, err error) {
	a.messages = messages
	for _, message := range messages {
		body := message[4:]
		switch message[0] {
		case certificateMessage:
			a.context = body[1 : 1+int(body[0])]
			list := body[1+int(body[0])+3:]
			for len(list) > 0 {
				end := 3 + uint24(list)
				a.certificates = append(a.certificates, list[3:end])
				behind := end + 2 + int(binary.BigEndian.Uint16(list[end:]))
				a.extensions = append(a.extensions, list[end+2:behind])
				list = list[behind:]
			}
		case certificateVerify:
			a.scheme = binary.BigEndian.Uint16(body)
			a.signature = body[4:]
		}
	}
	if len(a.certificates) == 0 || len(a.signature) == 0 {
		err = fmt.Errorf("no certificate or no signature in %d messages", len(messages))
	}
	return a, err
}

// certificate is the Certificate message with another certificate at a place of the list.
func (a authentication) certificate(at int, other []byte) []byte {
	var list []byte
	for i, one := range a.certificates {
		if i == at {
			one = other
		}
		list = append(append(list, vector(3, one)...), vector(2, a.extensions[i])...)
	}
	return handshake(certificateMessage, append(vector(1, a.context), vector(3, list)...))
}

// verify is the CertificateVerify message with this scheme and signature.
func verify(scheme uint16, signature []byte) []byte {
	body := binary.BigEndian.AppendUint16(nil, scheme)
	return handshake(certificateVerify, append(body, vector(2, signature)...))
}

// with is the flight with another message in place of that of its type; none leaves it out.
func (a authentication) with(kind byte, other []byte) []byte {
	var out []byte
	for _, message := range a.messages {
		if message[0] == kind {
			message = other
		}
		out = append(out, message...)
	}
	return out
}

// A change of a flight. It is made anew for each connection, since signatures differ.
type edit struct {
	name string
	make func(a authentication) []byte
	// The alerts that are right; any where there are none.
	right []int
}

// signatureEdits is every malformed CertificateVerify: each length, and bytes changed at each place that
// is a multiple of the stride.
func signatureEdits(like authentication, stride int) []edit {
	var all []edit
	add := func(name string, change func(a authentication) []byte, right ...int) {
		all = append(all, edit{name, func(a authentication) []byte {
			return a.with(certificateVerify, change(a))
		}, right})
	}
	// Signatures of Falcon differ in length, so a length is from the end of each.
	length := len(like.signature)
	for n := 0; n <= length+beyondSignature; n++ {
		off := n - length
		if off == 0 || (n > 4 && off < -4 && n%stride != 0) {
			continue
		}
		add(fmt.Sprintf("a signature of %+d bytes", off), func(a authentication) []byte {
			return verify(a.scheme, resized(a.signature, max(0, len(a.signature)+off)))
		}, 47, 50, 51)
	}
	for at := 0; at < length; at++ {
		if at%stride != 0 && at > 40 && length-at > 100 {
			continue
		}
		add(fmt.Sprintf("byte %d of the signature changed", at), func(a authentication) []byte {
			at := min(at, len(a.signature)-1)
			return verify(a.scheme, changed(a.signature, at, a.signature[at]^1))
		}, 51)
	}
	for _, fill := range []byte{0, 0xff} {
		add(fmt.Sprintf("a signature of bytes %#x", fill), func(a authentication) []byte {
			return verify(a.scheme, bytes.Repeat([]byte{fill}, len(a.signature)))
		}, 51)
	}
	// mldsa44, 65, 87; ecdsa, ed25519, rsa; SLH-DSA and Falcon as drafted; nobody's.
	for _, scheme := range []uint16{0x0904, 0x0905, 0x0906, 0x0403, 0x0807, 0x0804, 0x0911, 0xfed7, 0xfeda, 0, 0xffff} {
		if scheme != like.scheme {
			add(fmt.Sprintf("scheme %#04x", scheme), func(a authentication) []byte {
				return verify(scheme, a.signature)
			}, 47)
		}
	}
	inconsistent := func(name string, change func(message []byte) []byte) {
		add(name, func(a authentication) []byte { return change(verify(a.scheme, a.signature)) })
	}
	inconsistent("a signature's length too small", func(m []byte) []byte { return changed(m, 7, m[7]-1) })
	inconsistent("a signature's length too large", func(m []byte) []byte { return changed(m, 7, m[7]+1) })
	inconsistent("an empty CertificateVerify", func(m []byte) []byte { return handshake(m[0], nil) })
	inconsistent("no CertificateVerify", func([]byte) []byte { return nil })
	inconsistent("two of them", func(m []byte) []byte { return append(bytes.Clone(m), m...) })
	return all
}

// certificateEdits is every malformed Certificate: each certificate of the chain cut and continued at
// each length, and changed at each place, that is a multiple of the stride; and lists that are wrong.
func certificateEdits(like authentication, stride int) []edit {
	var all []edit
	add := func(name string, change func(a authentication) []byte) {
		all = append(all, edit{name, func(a authentication) []byte {
			return a.with(certificateMessage, change(a))
		}, nil})
	}
	for which, one := range like.certificates {
		length := len(one)
		for n := 0; n <= length+beyondSignature; n++ {
			if n == length || n > 16 && n < length-16 && n%stride != 0 {
				continue
			}
			add(fmt.Sprintf("certificate %d with %d of %d bytes", which, n, length), func(a authentication) []byte {
				return a.certificate(which, resized(a.certificates[which], n))
			})
		}
		for at := 0; at < length; at++ {
			if at > 64 && at%stride != 0 {
				continue
			}
			for _, bit := range []byte{1, 0x80} {
				add(fmt.Sprintf("certificate %d with bit %#x of byte %d changed", which, bit, at), func(a authentication) []byte {
					one := a.certificates[which]
					return a.certificate(which, changed(one, at, one[at]^bit))
				})
			}
		}
	}
	add("no certificate", func(a authentication) []byte {
		return handshake(certificateMessage, append(vector(1, a.context), vector(3, nil)...))
	})
	add("an empty message", func(authentication) []byte { return handshake(certificateMessage, nil) })
	add("a context", func(a authentication) []byte {
		a.context = append(bytes.Clone(a.context), 1)
		return a.certificate(-1, nil)
	})
	add("a list longer than the message", func(a authentication) []byte {
		message := a.certificate(-1, nil)
		at := 4 + 1 + len(a.context) + 2
		return changed(message, at, message[at]+1)
	})
	add("a list shorter than the message", func(a authentication) []byte {
		message := a.certificate(-1, nil)
		at := 4 + 1 + len(a.context) + 2
		return changed(message, at, message[at]-1)
	})
	add("no message", func(authentication) []byte { return nil })
	return all
}

// Which side's flight is changed.
type side struct {
	// The secrets of its flight, and of the other side's answer.
	sends, answers string
}

var sides = map[string]side{
	"server": {"SERVER_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_HANDSHAKE_TRAFFIC_SECRET"},
	"client": {"CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_TRAFFIC_SECRET_0"},
}

// between takes one connection of the client to the server, changes the flight of one side, and says how
// the other side answers.
func between(from net.Conn, port string, log *keylog, by side, change func(a authentication) []byte) (string, error) {
	defer from.Close()
	from.SetDeadline(time.Now().Add(20 * time.Second))
	to, err := dial(port)
	if err != nil {
		return "", err
	}
	defer to.Close()
	_, message, err := readRecord(from)
	if err != nil {
		return "", err
	}
	random := bytes.Clone(message[6 : 6+32])
	if _, err := to.Write(record(message)); err != nil {
		return "", err
	}
	_, message, err = readRecord(to)
	if err != nil {
		return "", err
	}
	chosen := 4 + 2 + 32 + 1 + int(message[4+2+32])
	with, ok := suites[binary.BigEndian.Uint16(message[chosen:])]
	if !ok {
		return "", fmt.Errorf("no suite %x", message[chosen:chosen+2])
	}
	if _, err := from.Write(record(message)); err != nil {
		return "", err
	}
	keys := func(label string) (*half, error) {
		// The keys of an answer may come a moment after the flight that they belong to.
		for tries := 0; ; tries++ {
			all, err := log.secrets(random)
			if err != nil {
				return nil, err
			}
			if all[label] != nil {
				return newHalf(with, all[label])
			}
			if tries > 1000 {
				return nil, fmt.Errorf("no %s in %s", label, log.file.Name())
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	server, err := keys("SERVER_HANDSHAKE_TRAFFIC_SECRET")
	if err != nil {
		return "", err
	}
	messages, err := server.flight(to, finishedMessage)
	if err != nil {
		return "", err
	}
	sender, receiver := to, from
	whole := bytes.Join(messages, nil)
	if by.sends == "CLIENT_HANDSHAKE_TRAFFIC_SECRET" {
		server.number = 0
		if _, err := from.Write(server.seal(whole)); err != nil {
			return "", err
		}
		sender, receiver = from, to
		client, err := keys(by.sends)
		if err != nil {
			return "", err
		}
		if messages, err = client.flight(sender, finishedMessage); err != nil {
			return "", err
		}
	}
	parts, err := cut(messages)
	if err != nil {
		return "", err
	}
	resealed, err := keys(by.sends)
	if err != nil {
		return "", err
	}
	if _, err := receiver.Write(resealed.seal(change(parts))); err != nil {
		return "", err
	}
	answers, err := keys(by.answers)
	if err != nil {
		return "", err
	}
	return verdict(receiver, answers), nil
}

// certificates runs CLIENT through the relay to the server at PORT, whose secrets are in KEYLOG, and
// changes what one side proves itself by; the other side's alerts go to LOG.
func certificates(who, port, secrets, log, stride string, words []string) error {
	by, ok := sides[who]
	step, err := strconv.Atoi(stride)
	if !ok || err != nil || step < 1 {
		return fmt.Errorf("no side %q, or no stride %q", who, stride)
	}
	keys, err := openKeylog(secrets)
	if err != nil {
		return err
	}
	listener, through, err := listen()
	if err != nil {
		return err
	}
	defer listener.Close()
	// One connection with the flight as it is, to know it.
	var like authentication
	first := command(words, through, 1)
	if err := first.Start(); err != nil {
		return err
	}
	from, err := listener.Accept()
	if err != nil {
		return err
	}
	got, err := between(from, port, keys, by, func(a authentication) []byte {
		like = a
		return bytes.Join(a.messages, nil)
	})
	first.Wait()
	if err != nil {
		return err
	}
	count(!strings.HasPrefix(got, "alert"), "%s: the right flight: %s", who, got)
	edits := append(signatureEdits(like, step), certificateEdits(like, step)...)
	cmd := command(words, through, len(edits))
	if err := cmd.Start(); err != nil {
		return err
	}
	alerts := new(strings.Builder)
	for _, one := range edits {
		from, err := listener.Accept()
		if err != nil {
			return err
		}
		got, err := between(from, port, keys, by, one.make)
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		right := len(one.right) == 0 && strings.HasPrefix(got, "alert ")
		for _, alert := range one.right {
			right = right || got == fmt.Sprintf("alert %d", alert)
		}
		count(right, "%s: %s: %s", who, one.name, got)
		fmt.Fprintf(alerts, "%s: %s\n", one.name, got)
	}
	cmd.Wait()
	return os.WriteFile(log, []byte(alerts.String()), 0o644)
}
