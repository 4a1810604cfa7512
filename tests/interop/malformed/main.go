// Malformed post-quantum key shares against Gabion under libssl: of other lengths, out of range, swapped,
// doubled and mislabelled, to our server and, by a relay in the middle, to our client; and malformed
// certificates and signatures of handshakes, by a relay that is told the secrets.
//
//	malformed server PORT REFERENCE STRIDE GROUP CLIENT...   our server at PORT; at REFERENCE one of
//	                                                  OpenSSL alone, whose alerts ours has to give; -
//	                                                  for a group that it lacks
//	malformed client PORT LOG STRIDE GROUP CLIENT...  CLIENT, through the relay, to the server at PORT;
//	                                                  its alerts go to LOG, to be compared
//
//	malformed certificates SIDE PORT KEYLOG LOG       CLIENT, through the relay, to the server at PORT; the
//	                       STRIDE CLIENT...           relay reads what SIDE, server or client, proves itself
//	                                                  by, changes it at every STRIDE-th place, and writes the
//	                                                  other's alerts to LOG. KEYLOG is where the server or
//	                                                  the client leaves the secrets of its connections
//
// CLIENT is a command of our own client that asks for GROUP; {port} and {count} in it are replaced. Of the
// lengths of a share every STRIDE-th is taken, and all near 0, near a border of its halves and near the right
// one.
// Prints "N passed, N failed"; a failure is printed as it happens.
package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// beyond is how far past the right length the lengths go; near is how close to one every length is taken.
const beyond, near = 64, 16

// Where the halves of a hybrid's client share lie; a pure group has no curve.
type layout struct{ kem, kemLen, curve, curveLen int }

var layouts = map[string]layout{
	"MLKEM512":           {0, 800, 0, 0},
	"MLKEM768":           {0, 1184, 0, 0},
	"MLKEM1024":          {0, 1568, 0, 0},
	"X25519MLKEM768":     {0, 1184, 1184, 32},
	"SecP256r1MLKEM768":  {65, 1184, 0, 65},
	"SecP384r1MLKEM1024": {97, 1568, 0, 97},
	"SecP256r1MLKEM512":  {65, 800, 0, 65},
	"SecP384r1MLKEM768":  {97, 1184, 0, 97},
	"SecP521r1MLKEM1024": {133, 1568, 0, 133},
	"MLKEM512X25519":     {0, 800, 800, 32},
	"p256_mlkem512":      {65, 800, 0, 65},
}

var codepoints = map[string]uint16{
	"MLKEM512": 0x200, "MLKEM768": 0x201, "MLKEM1024": 0x202,
	"X25519MLKEM768": 0x11ec, "SecP256r1MLKEM768": 0x11eb, "SecP384r1MLKEM1024": 0x11ed,
	"SecP256r1MLKEM512": 0x11e9, "MLKEM512X25519": 0x11ea,
	"p256_mlkem512": 0x2f4b, "SecP384r1MLKEM768": 0x2f4c, "SecP521r1MLKEM1024": 0x2f4d,
}

var passed, failed int

func count(ok bool, format string, arguments ...any) {
	if ok {
		passed++
		return
	}
	failed++
	fmt.Printf("FAILED: "+format+"\n", arguments...)
}

// command starts the client with a port and a number of connections.
func command(words []string, port string, number int) *exec.Cmd {
	replace := strings.NewReplacer("{port}", port, "{count}", strconv.Itoa(number))
	var line []string
	for _, word := range words {
		line = append(line, replace.Replace(word))
	}
	cmd := exec.Command(line[0], line[1:]...)
	return cmd
}

// listen opens a port, and gives it as text as well.
func listen() (net.Listener, string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	return listener, strconv.Itoa(listener.Addr().(*net.TCPAddr).Port), nil
}

// capture takes the ClientHello that our client sends; everything else about it is right.
func capture(client []string) (hello, error) {
	listener, port, err := listen()
	if err != nil {
		return hello{}, err
	}
	defer listener.Close()
	cmd := command(client, port, 1)
	if err := cmd.Start(); err != nil {
		return hello{}, err
	}
	defer cmd.Wait()
	conn, err := listener.Accept()
	if err != nil {
		return hello{}, err
	}
	defer conn.Close()
	_, message, err := readRecord(conn)
	if err != nil {
		return hello{}, err
	}
	return parse(message)
}

// lengths is which wrong lengths a share of the right length is given; where its halves meet, other wrong
// lengths would leave one of them whole.
func lengths(right, kemLen, curveLen, stride int) []int {
	var all []int
	for length := 0; length <= right+beyond; length++ {
		taken := length%stride == 0
		for _, mark := range []int{0, kemLen, curveLen, right} {
			taken = taken || length >= mark-near && length <= mark+near
		}
		if taken && length != right {
			all = append(all, length)
		}
	}
	return all
}

// resized is the share cut, or continued by zeros.
func resized(share []byte, length int) []byte {
	other := make([]byte, length)
	copy(other, share)
	return other
}

// changed is the share with some bytes replaced.
func changed(share []byte, at int, with ...byte) []byte {
	other := bytes.Clone(share)
	copy(other[at:], with)
	return other
}

type mutation struct {
	name    string
	message []byte
	// OpenSSL lets this pass, so it may.
	harmless bool
}

// mutations is every malformed ClientHello for a group.
func mutations(h hello, where layout, stride int) []mutation {
	var all []mutation
	add := func(name string, message []byte) {
		all = append(all, mutation{name, message, false})
	}
	lenient := func(name string, message []byte) {
		all = append(all, mutation{name, message, true})
	}
	for _, length := range lengths(len(h.share), where.kemLen, where.curveLen, stride) {
		add(fmt.Sprintf("a share of %d bytes", length), h.with(resized(h.share, length)))
	}
	// Three bytes hold two coefficients; 0xfff is beyond q = 3329. Seed rho is the last 32 bytes.
	for _, at := range []int{0, (where.kemLen - 32) / 6 * 3, where.kemLen - 35} {
		share := changed(h.share, where.kem+at, 0xff, 0xff, 0xff)
		add(fmt.Sprintf("coefficients out of range at byte %d", at), h.with(share))
	}
	// q itself in the first coefficient: the smallest value that is out of range.
	low := h.share[where.kem+1] & 0xf0
	add("the coefficient q", h.with(changed(h.share, where.kem, 0x01, low|0x0d)))
	if where.curveLen > 0 {
		kem := h.share[where.kem : where.kem+where.kemLen]
		curve := h.share[where.curve : where.curve+where.curveLen]
		swapped := append(bytes.Clone(curve), kem...)
		if where.curve == 0 {
			swapped = append(bytes.Clone(kem), curve...)
		}
		add("halves in the other order", h.with(swapped))
		zero := make([]byte, where.curveLen)
		add("a curve's share of zeros", h.with(changed(h.share, where.curve, zero...)))
	}
	if where.curveLen > 32 {
		last := where.curve + where.curveLen - 1
		add("a point off the curve", h.with(changed(h.share, last, h.share[last]^1)))
		// With both coordinates and a sign: no form for TLS 1.3, but OpenSSL reads it.
		for _, form := range []byte{6, 7} {
			share := changed(h.share, where.curve, form)
			lenient(fmt.Sprintf("a point of form %d", form), h.with(share))
		}
		for _, form := range []byte{0, 2, 3, 5, 8, 0xff} {
			add(fmt.Sprintf("a point of form %d", form), h.with(changed(h.share, where.curve, form)))
		}
	}
	for name, other := range codepoints {
		if other != h.group {
			add("labelled "+name, h.message(h.shares(entry(other, h.share))))
		}
	}
	one := entry(h.group, h.share)
	lenient("the same share twice", h.message(h.shares(one, one)))
	add("a list shorter than its entry", h.message(append([]byte{0, 1}, one...)))
	add("a list longer than the extension", h.message(append([]byte{0xff, 0xff}, one...)))
	longer := bytes.Clone(one)
	longer[3]++
	add("an entry longer than the list", h.message(h.shares(longer)))
	shorter := bytes.Clone(one)
	shorter[3]--
	add("an entry shorter than the list", h.message(h.shares(shorter)))
	return all
}

// send gives a server one message and says what it answers.
func send(port string, message []byte) string {
	conn, err := dial(port)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	if _, err := conn.Write(record(message)); err != nil {
		return err.Error()
	}
	return answer(conn)
}

func server(port, reference string, stride int, group string, client []string) error {
	where, ok := layouts[group]
	if !ok {
		return fmt.Errorf("no group %q", group)
	}
	h, err := capture(client)
	if err != nil {
		return err
	}
	if len(h.share) != where.kemLen+where.curveLen {
		return fmt.Errorf("our client's share has %d bytes", len(h.share))
	}
	good := func(when string) {
		got := send(port, h.with(h.share))
		count(got == "ServerHello", "%s: the right share, %s: %s", group, when, got)
	}
	good("before")
	for _, m := range mutations(h, where, stride) {
		got, expected := send(port, m.message), "not asked"
		if reference != "-" {
			expected = send(reference, m.message)
		} else if m.harmless {
			expected = "ServerHello"
		}
		// Where OpenSSL alone calls it something else, illegal_parameter and decode_error are right.
		right := strings.HasPrefix(got, "alert ") && got == expected || got == "alert 47" || got == "alert 50"
		count(right || m.harmless && got == expected,
			"%s: %s: %s, and OpenSSL alone: %s", group, m.name, got, expected)
	}
	good("after")
	return nil
}

// relay takes one connection of the client to the server, with another share in the ServerHello, and
// says how the client answers.
func relay(from net.Conn, port string, change func(h hello) []byte) (string, error) {
	defer from.Close()
	from.SetDeadline(time.Now().Add(20 * time.Second))
	_, message, err := readRecord(from)
	if err != nil {
		return "", err
	}
	to, err := dial(port)
	if err != nil {
		return "", err
	}
	defer to.Close()
	if _, err := to.Write(record(message)); err != nil {
		return "", err
	}
	_, message, err = readRecord(to)
	if err != nil {
		return "", err
	}
	h, err := parse(message)
	if err != nil {
		return "", err
	}
	if _, err := from.Write(record(change(h))); err != nil {
		return "", err
	}
	// The record of a client that went on would be ChangeCipherSpec.
	return answer(from), nil
}

func client(port, log string, stride int, group string, words []string) error {
	where, ok := layouts[group]
	if !ok {
		return fmt.Errorf("no group %q", group)
	}
	// A ciphertext is as long as the encapsulation key, but for k = 2 and 3: 32 bytes less and more.
	kemLen := map[int]int{800: 768, 1184: 1088, 1568: 1568}[where.kemLen]
	length := kemLen + where.curveLen
	listener, through, err := listen()
	if err != nil {
		return err
	}
	defer listener.Close()
	wrong := lengths(length, kemLen, where.curveLen, stride)
	cmd := command(words, through, len(wrong))
	output := new(bytes.Buffer)
	cmd.Stdout = output
	if err := cmd.Start(); err != nil {
		return err
	}
	alerts := new(strings.Builder)
	for _, n := range wrong {
		from, err := listener.Accept()
		if err != nil {
			return err
		}
		got, err := relay(from, port, func(h hello) []byte {
			count(len(h.share) == length, "%s: our server's share has %d bytes", group, len(h.share))
			return h.with(resized(h.share, n))
		})
		if err != nil {
			return err
		}
		count(strings.HasPrefix(got, "alert "), "%s: a server's share of %d bytes: %s", group, n, got)
		fmt.Fprintf(alerts, "%s, %d bytes: %s\n", group, n, got)
	}
	cmd.Wait()
	if err := os.WriteFile(log, []byte(alerts.String()), 0o644); err != nil {
		return err
	}
	// Not one of these connections may have worked for the client.
	count(strings.HasPrefix(output.String(), `{"connections":0,`), "%s: the client says %s", group, output)
	return nil
}

func main() {
	arguments := os.Args[1:]
	err := fmt.Errorf("expected malformed server PORT REFERENCE STRIDE GROUP CLIENT..., " +
		"client PORT LOG STRIDE GROUP CLIENT... or certificates SIDE PORT KEYLOG LOG STRIDE CLIENT...")
	var stride int
	if len(arguments) > 5 && arguments[0] != "certificates" {
		stride, _ = strconv.Atoi(arguments[3])
	}
	switch {
	case stride > 0 && arguments[0] == "server":
		err = server(arguments[1], arguments[2], stride, arguments[4], arguments[5:])
	case len(arguments) > 6 && arguments[0] == "certificates":
		err = certificates(arguments[1], arguments[2], arguments[3], arguments[4], arguments[5], arguments[6:])
	case stride > 0 && arguments[0] == "client":
		err = client(arguments[1], arguments[2], stride, arguments[4], arguments[5:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
