package main

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
)

const recordChangeCipherSpec, recordData = 20, 23

// A suite of TLS 1.3: the hash of its key schedule and the length of its AES key.
type suite struct {
	hash func() hash.Hash
	key  int
}

var suites = map[uint16]suite{
	0x1301: {sha256.New, 16},
	0x1302: {sha512.New384, 32},
}

// half is one direction of protected records under one traffic secret (RFC 8446, 5.2 and 7.3).
type half struct {
	aead   cipher.AEAD
	iv     []byte
	number uint64
}

func newHalf(with suite, secret []byte) (*half, error) {
	expand := func(label string, length int) ([]byte, error) {
		info := binary.BigEndian.AppendUint16(nil, uint16(length))
		info = append(info, byte(len("tls13 "+label)))
		info = append(info, "tls13 "+label...)
		return hkdf.Expand(with.hash, secret, string(append(info, 0)), length)
	}
	key, err := expand("key", with.key)
	if err != nil {
		return nil, err
	}
	iv, err := expand("iv", 12)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &half{aead: aead, iv: iv}, err
}

func (h *half) nonce() []byte {
	nonce := append([]byte{}, h.iv...)
	for i := range 8 {
		nonce[4+i] ^= byte(h.number >> (56 - 8*i))
	}
	h.number++
	return nonce
}

// open gives type and content of a protected record.
func (h *half) open(content []byte) (byte, []byte, error) {
	header := []byte{recordData, 3, 3, byte(len(content) >> 8), byte(len(content))}
	plain, err := h.aead.Open(nil, h.nonce(), content, header)
	if err != nil {
		return 0, nil, err
	}
	for len(plain) > 0 && plain[len(plain)-1] == 0 {
		plain = plain[:len(plain)-1]
	}
	if len(plain) == 0 {
		return 0, nil, errors.New("a record of padding")
	}
	return plain[len(plain)-1], plain[:len(plain)-1], nil
}

// seal puts handshake messages into as few records as hold them.
func (h *half) seal(messages []byte) []byte {
	var out []byte
	for len(messages) > 0 {
		part := messages[:min(len(messages), 1<<14)]
		messages = messages[len(part):]
		length := len(part) + 1 + h.aead.Overhead()
		header := []byte{recordData, 3, 3, byte(length >> 8), byte(length)}
		plain := append(append([]byte{}, part...), recordHandshake)
		out = append(append(out, header...), h.aead.Seal(nil, h.nonce(), plain, header)...)
	}
	return out
}

// A keylog is the file in which a side leaves the secrets of its connections, read as it grows.
type keylog struct {
	file *os.File
	rest []byte
	// By client random, and then by label.
	found map[string]map[string][]byte
}

func openKeylog(path string) (*keylog, error) {
	file, err := os.Open(path)
	return &keylog{file: file, found: map[string]map[string][]byte{}}, err
}

// secrets gives what is known of the connection with this client random.
func (k *keylog) secrets(random []byte) (map[string][]byte, error) {
	fresh, err := io.ReadAll(k.file)
	if err != nil {
		return nil, err
	}
	k.rest = append(k.rest, fresh...)
	for {
		line, rest, whole := bytes.Cut(k.rest, []byte("\n"))
		if !whole {
			break
		}
		k.rest = rest
		words := strings.Fields(string(line))
		if len(words) != 3 {
			continue
		}
		secret, err := hex.DecodeString(words[2])
		if err != nil {
			return nil, err
		}
		if k.found[words[1]] == nil {
			k.found[words[1]] = map[string][]byte{}
		}
		k.found[words[1]][words[0]] = secret
	}
	return k.found[hex.EncodeToString(random)], nil
}

// flight reads protected records until a message of this type is complete, and gives the messages.
func (h *half) flight(from io.Reader, last byte) ([][]byte, error) {
	var messages [][]byte
	var have []byte
	for {
		kind, content, err := readRecord(from)
		if err != nil {
			return nil, err
		}
		if kind == recordChangeCipherSpec {
			continue
		}
		if kind != recordData {
			return nil, fmt.Errorf("a record of type %d in the clear: %x", kind, content)
		}
		kind, plain, err := h.open(content)
		if err != nil {
			return nil, err
		}
		if kind != recordHandshake {
			return nil, fmt.Errorf("a record of type %d within the handshake: %x", kind, plain)
		}
		have = append(have, plain...)
		for len(have) >= 4 {
			end := 4 + int(have[1])<<16 + int(binary.BigEndian.Uint16(have[2:]))
			if len(have) < end {
				break
			}
			message := have[:end]
			have = have[end:]
			messages = append(messages, message)
			if message[0] == last {
				return messages, nil
			}
		}
	}
}

// verdict says what a side answers to a flight, in the clear or under its keys.
func verdict(from io.Reader, keys *half) string {
	for {
		kind, content, err := readRecord(from)
		switch {
		case err != nil:
			return "nothing: " + err.Error()
		case kind == recordChangeCipherSpec:
			continue
		case kind == recordAlert && len(content) == 2:
			return fmt.Sprintf("alert %d", content[1])
		case kind != recordData:
			return fmt.Sprintf("record %d of %d bytes", kind, len(content))
		}
		kind, plain, err := keys.open(content)
		switch {
		case err != nil:
			return "a record under other keys"
		case kind == recordAlert && len(plain) == 2:
			return fmt.Sprintf("alert %d", plain[1])
		case kind == recordHandshake && len(plain) > 0:
			return fmt.Sprintf("message %d", plain[0])
		default:
			return fmt.Sprintf("content %d of %d bytes", kind, len(plain))
		}
	}
}
