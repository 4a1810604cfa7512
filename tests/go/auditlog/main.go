// Verifies a folder of an audit log by Go's own packages for transparency logs: the checkpoint's signature of Ed25519
// (sumdb/note), the tree over every entry (sumdb/tlog), and the tiles. A test compares what it says with what
// `gabion kms audit verify` says.
//
//	auditlog FOLDER KEYS
//
// KEYS has keys of checkpoints, one a line, as `gabion kms audit keys` prints them. sumdb/note knows no ML-DSA-44, so
// that key is left out here. Prints size and root, and exits 1 where something is wrong.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	height = 8
	width  = 1 << height
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "error: expected FOLDER and KEYS")
		os.Exit(2)
	}
	tree, err := verify(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	fmt.Printf("%d %x\n", tree.N, tree.Hash[:])
}

func verify(folder, keys string) (tlog.Tree, error) {
	tree, err := checkpoint(folder, keys)
	if err != nil {
		return tree, err
	}
	// The tree is made again of the entries, and each tile compared with what they make.
	hashes := stored{}
	for index := int64(0); index < tree.N; index++ {
		entry, err := entry(folder, tree.N, index)
		if err != nil {
			return tree, err
		}
		made, err := tlog.StoredHashes(index, entry, hashes)
		if err != nil {
			return tree, err
		}
		hashes = append(hashes, made...)
	}
	root, err := tlog.TreeHash(tree.N, hashes)
	if err != nil {
		return tree, err
	}
	if root != tree.Hash {
		return tree, fmt.Errorf("the entries make %x; the checkpoint tells of %x", root[:], tree.Hash[:])
	}
	return tree, tiles(folder, tree, hashes)
}

// checkpoint reads the note that the key of Ed25519 signed.
func checkpoint(folder, keys string) (tlog.Tree, error) {
	text, err := os.ReadFile(keys)
	if err != nil {
		return tlog.Tree{}, err
	}
	var verifiers []note.Verifier
	for _, key := range strings.Fields(string(text)) {
		// It knows type 1 alone.
		if verifier, err := note.NewVerifier(key); err == nil {
			verifiers = append(verifiers, verifier)
		}
	}
	if len(verifiers) != 1 {
		return tlog.Tree{}, fmt.Errorf("%s has %d keys of Ed25519; expected one", keys, len(verifiers))
	}
	signed, err := os.ReadFile(filepath.Join(folder, "checkpoint"))
	if err != nil {
		return tlog.Tree{}, err
	}
	opened, err := note.Open(signed, note.VerifierList(verifiers...))
	if err != nil {
		return tlog.Tree{}, err
	}
	lines := strings.SplitN(opened.Text, "\n", 2)
	if lines[0] != verifiers[0].Name() {
		return tlog.Tree{}, fmt.Errorf("the checkpoint is of %q", lines[0])
	}
	// Below its origin a checkpoint is what tlog calls a tree, but for its first line.
	return tlog.ParseTree([]byte("go.sum database tree\n" + lines[1]))
}

// entry reads an entry out of its bundle: two bytes of length, 32 of hash.
func entry(folder string, size, index int64) ([]byte, error) {
	bundle := tlog.Tile{H: height, L: -1, N: index / width, W: widthOf(size, index/width)}
	bytes, err := read(folder, bundle)
	if err != nil {
		return nil, err
	}
	for at := index % width; at > 0; at-- {
		if len(bytes) < 2 || len(bytes) < 2+int(binary.BigEndian.Uint16(bytes)) {
			return nil, errors.New(path(bundle) + " is too short")
		}
		bytes = bytes[2+int(binary.BigEndian.Uint16(bytes)):]
	}
	if len(bytes) < 34 || binary.BigEndian.Uint16(bytes) != 32 {
		return nil, errors.New(path(bundle) + " has another entry than one of 32 bytes")
	}
	return bytes[2:34], nil
}

// tiles compares those that the tree of the checkpoint has with what its entries make.
func tiles(folder string, tree tlog.Tree, hashes stored) error {
	for _, tile := range tlog.NewTiles(height, 0, tree.N) {
		found, err := read(folder, tile)
		if err != nil {
			return err
		}
		made, err := tlog.ReadTileData(tile, hashes)
		if err != nil {
			return err
		}
		if string(found) != string(made) {
			return fmt.Errorf("%s is another than the entries make", path(tile))
		}
	}
	return nil
}

// read reads a tile, or the beginning of the full one.
func read(folder string, tile tlog.Tile) ([]byte, error) {
	bytes, err := os.ReadFile(filepath.Join(folder, path(tile)))
	if errors.Is(err, os.ErrNotExist) && tile.W < width {
		full := tile
		full.W = width
		bytes, err = os.ReadFile(filepath.Join(folder, path(full)))
		if err == nil && tile.L >= 0 {
			bytes = bytes[:min(len(bytes), tile.W*tlog.HashSize)]
		}
	}
	return bytes, err
}

// path is tlog's, without the height, and with C2SP's name of bundles (tlog-tiles).
func path(tile tlog.Tile) string {
	return strings.Replace(strings.Replace(tile.Path(), "tile/8/", "tile/", 1), "tile/data/", "tile/entries/", 1)
}

func widthOf(size, bundle int64) int {
	return int(min(size-bundle*width, width))
}

// stored has hashes as tlog numbers them.
type stored []tlog.Hash

func (s stored) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, 0, len(indexes))
	for _, index := range indexes {
		if index >= int64(len(s)) {
			return nil, fmt.Errorf("there is no hash %d", index)
		}
		hashes = append(hashes, s[index])
	}
	return hashes, nil
}
