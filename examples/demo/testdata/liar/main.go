// Command liar is a CPI that answers one method without doing it, to show that
// the demo does not believe what a CPI says. The method stands in the program's
// name, liar-METHOD; everything else is passed on to the program real beside it.
package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	request, err := io.ReadAll(os.Stdin)
	if err != nil {
		os.Exit(1)
	}
	var r struct{ Method string }
	_ = json.Unmarshal(request, &r)
	program, err := os.Executable()
	if err != nil {
		os.Exit(1)
	}
	if r.Method == strings.TrimPrefix(filepath.Base(program), "liar-") {
		result := map[string]string{
			"create_stemcell": `"stemcell-0123456789abcdef0123456789abcdef"`,
			"create_vm":       `["vm-999-abcdefghjkmn",{}]`,
			"create_disk":     `"disk-abcdefghjkmnpqr"`,
			"attach_disk":     `{"path":"/dev/disk/by-id/virtio-disk"}`,
			"has_vm":          `false`,
		}[r.Method]
		if result == "" {
			result = "null"
		}
		_, _ = os.Stdout.WriteString(`{"result":` + result + `,"error":null,"log":""}`)
		return
	}
	real := exec.Command(filepath.Join(filepath.Dir(program), "real"), os.Args[1:]...)
	real.Stdin, real.Stdout, real.Stderr = bytes.NewReader(request), os.Stdout, os.Stderr
	if real.Run() != nil {
		os.Exit(1)
	}
}
