package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Types of records and of messages, and the extension that all this is about (RFC 9846, 4 and 5).
const (
	recordAlert     = 21
	recordHandshake = 22
	clientHello     = 1
	serverHello     = 2
	keyShare        = 51
)

// hello is a ClientHello or ServerHello, cut round its key_share extension.
type hello struct {
	kind   byte
	before []byte // of the body, without the extensions' length
	// Whole extensions on either side of key_share, with their headers.
	head, tail []byte
	group      uint16
	share      []byte
}

// message puts it together again round another key_share extension, with every length right.
func (h hello) message(extension []byte) []byte {
	extensions := append([]byte{}, h.head...)
	extensions = binary.BigEndian.AppendUint16(extensions, keyShare)
	extensions = binary.BigEndian.AppendUint16(extensions, uint16(len(extension)))
	extensions = append(append(extensions, extension...), h.tail...)
	body := binary.BigEndian.AppendUint16(append([]byte{}, h.before...), uint16(len(extensions)))
	body = append(body, extensions...)
	return append([]byte{h.kind, 0, byte(len(body) >> 8), byte(len(body))}, body...)
}

// entry is a KeyShareEntry.
func entry(group uint16, share []byte) []byte {
	bytes := binary.BigEndian.AppendUint16(nil, group)
	bytes = binary.BigEndian.AppendUint16(bytes, uint16(len(share)))
	return append(bytes, share...)
}

// shares is the key_share extension of this kind of hello with these entries.
func (h hello) shares(entries ...[]byte) []byte {
	var all []byte
	for _, one := range entries {
		all = append(all, one...)
	}
	if h.kind == serverHello {
		return all
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(all))), all...)
}

// with is the hello with this share in place of its own.
func (h hello) with(share []byte) []byte { return h.message(h.shares(entry(h.group, share))) }

// parse cuts a message that one of our own sides has sent; it is well formed.
func parse(message []byte) (hello, error) {
	h := hello{kind: message[0]}
	body := message[4:]
	at := 2 + 32
	at += 1 + int(body[at]) // session identifier
	if h.kind == clientHello {
		at += 2 + int(binary.BigEndian.Uint16(body[at:])) // cipher suites
		at += 1 + int(body[at])                           // compression
	} else {
		at += 2 + 1
	}
	h.before = body[:at]
	extensions := body[at+2:]
	for i := 0; i < len(extensions); {
		end := i + 4 + int(binary.BigEndian.Uint16(extensions[i+2:]))
		if binary.BigEndian.Uint16(extensions[i:]) != keyShare {
			i = end
			continue
		}
		data := extensions[i+4 : end]
		if h.kind == clientHello {
			data = data[2:]
		}
		h.head, h.tail = extensions[:i], extensions[end:]
		h.group = binary.BigEndian.Uint16(data)
		h.share = data[4:]
		if len(h.share) != int(binary.BigEndian.Uint16(data[2:])) {
			return h, errors.New("more than one share")
		}
		return h, nil
	}
	return h, errors.New("no key_share")
}

// readRecord reads one record, header and content.
func readRecord(from io.Reader) (kind byte, content []byte, err error) {
	var header [5]byte
	if _, err = io.ReadFull(from, header[:]); err != nil {
		return 0, nil, err
	}
	content = make([]byte, binary.BigEndian.Uint16(header[3:]))
	_, err = io.ReadFull(from, content)
	return header[0], content, err
}

// record puts a handshake message into a record.
func record(message []byte) []byte {
	header := []byte{recordHandshake, 3, 1, byte(len(message) >> 8), byte(len(message))}
	return append(header, message...)
}

// dial connects to a port of this machine; nothing here may take long.
func dial(port string) (net.Conn, error) {
	conn, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(20 * time.Second))
	}
	return conn, err
}

// answer says what somebody answers with: "ServerHello", "alert N", or what else came.
func answer(from io.Reader) string {
	kind, content, err := readRecord(from)
	switch {
	case err != nil:
		return "nothing: " + err.Error()
	case kind == recordAlert && len(content) == 2:
		return fmt.Sprintf("alert %d", content[1])
	case kind == recordHandshake && len(content) > 0 && content[0] == serverHello:
		return "ServerHello"
	default:
		return fmt.Sprintf("record %d of %d bytes", kind, len(content))
	}
}
