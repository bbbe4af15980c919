// A program outside the module that uses the clients as any user would.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/proxkit/proxkit/pbs"
	"github.com/proxkit/proxkit/pdm"
	"github.com/proxkit/proxkit/pve"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: consumer ENDPOINT TOKENID SECRET")
		os.Exit(2)
	}
	client, err := pve.NewClient(os.Args[1], pve.WithAPIToken(os.Args[2], os.Args[3]))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	version, err := client.GetVersion(context.Background())
	switch {
	case errors.Is(err, pve.ErrAuthentication):
		fmt.Fprintln(os.Stderr, "the token is not accepted:", err)
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(version.Version)

	_, _ = pbs.NewClient(os.Args[1])
	_, _ = pdm.NewClient(os.Args[1])
}
