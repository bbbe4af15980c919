// Command generator makes proxkit's facts files and API clients from the API
// descriptions that Proxmox publishes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(exitCode(err, os.Stderr))
}

// exitCode reports err, unless that is done already, and returns the status for it: 0
// where help was asked for, 2 for a command line that is not understood, else 1.
func exitCode(err error, stderr io.Writer) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if exit, ok := errors.AsType[exitError](err); ok {
		return exit.code
	}
	if bad, ok := errors.AsType[usageError](err); ok {
		if !bad.told {
			fmt.Fprintln(stderr, err)
		}
		return 2
	}
	fmt.Fprintln(stderr, err)
	return 1
}

// A usageError is a command line that is not understood.
type usageError struct {
	error
	told bool // package flag has printed it, with the usage
}

// parseFlags parses args.
func parseFlags(flags *flag.FlagSet, args []string) error {
	err := flags.Parse(args)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		return usageError{err, true}
	}
	return err
}

const usage = `usage: generator COMMAND [flags]

  apidoc    add the facts about a product's API to apidoc/, from a file, a URL or a host
  generate  make the OpenAPI documents and the clients from the facts
  diff      tell what changed between two API descriptions

"generator COMMAND -h" explains a command`

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return usageError{errors.New(usage), false}
	}
	switch args[0] {
	case "-h", "-help", "--help", "help":
		fmt.Fprintln(stderr, usage)
		return flag.ErrHelp
	case "apidoc":
		return runApidoc(ctx, args[1:], stdout, stderr)
	case "generate":
		return runGenerate(ctx, args[1:], stdout, stderr)
	case "diff":
		return runDiff(ctx, args[1:], stdout, stderr)
	}
	return usageError{fmt.Errorf("unknown command %q\n%s", args[0], usage), false}
}
