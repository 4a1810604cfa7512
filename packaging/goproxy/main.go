// Goproxy writes one version of a Go module in the layout that GOPROXY=file://FOLDER reads.
//
//	goproxy FOLDER MODULE VERSION SOURCE TIME
//
// SOURCE is the folder of the module's go.mod. TIME is that of the version, as RFC 3339 has it. The same files give the
// same bytes.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "usage: goproxy FOLDER MODULE VERSION SOURCE TIME")
		os.Exit(2)
	}
	if err := write(os.Args[1], module.Version{Path: os.Args[2], Version: os.Args[3]}, os.Args[4], os.Args[5]); err != nil {
		fmt.Fprintf(os.Stderr, "goproxy: %v\n", err)
		os.Exit(1)
	}
}

// write writes the version's list, information, go.mod and archive.
func write(proxy string, version module.Version, source, at string) error {
	path, err := module.EscapePath(version.Path)
	if err != nil {
		return err
	}
	moment, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version.Version, moment})
	if err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return err
	}
	folder := filepath.Join(proxy, path, "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list":                    []byte(version.Version + "\n"),
		version.Version + ".info": info,
		version.Version + ".mod":  mod,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return err
		}
	}
	archive, err := os.Create(filepath.Join(folder, version.Version+".zip"))
	if err != nil {
		return err
	}
	if err := zip.CreateFromDir(archive, version, source); err != nil {
		return err
	}
	return archive.Close()
}
